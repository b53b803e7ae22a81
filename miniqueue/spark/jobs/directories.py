"""Directories as jobs leave them, on whatever file system Spark reads, with the names that its readers pass over.

<archive>/_spark_metadata/7, 9.compact     a step of a stream that wrote the archive; several together
<figures>/step=7                           the same of a stream of figures
<checkpoint>/offsets/7                     a step that a stream has begun
<directory>/part-….parquet, _SUCCESS       what was written at once
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from miniqueue.errors import ConfigError
from miniqueue.spark.losses import JobFailedError

#: Is written first, and no reader looks there.
_NEW: Final = "_new"


def log_of(archive: str) -> str:
    """Return where Spark notes the steps that wrote an archive, and their files: only those count."""
    return f"{archive}/_spark_metadata"


def last_step(spark: SparkSession, directory: str, prefix: str = "") -> int:
    """Return the highest number that is a name there, behind `prefix`; -1 where there is none."""
    names = [name.removeprefix(prefix) for name in _names_in(spark, directory) if name.startswith(prefix)]
    numbers = [name.partition(".")[0] for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def check_checkpoint(spark: SparkSession, directory: str, written: int, checkpoint: str) -> None:
    """Raise ConfigError where a directory has steps that the checkpoint has not begun.

    Steps are known by their numbers, which begin anew with each checkpoint. A step is in its checkpoint before it is
    in the directory, so after a kill the two belong together.

    Args:
      spark: a session.
      directory: of the job.
      written: the last step in it.
      checkpoint: where the job is to go on from.
    """
    if written > last_step(spark, f"{checkpoint}/offsets"):
        problem = f"{directory}: its files are of another checkpoint than {checkpoint}"
        raise ConfigError([f"{problem}; take that one, or another directory"])


def replace_parquet(spark: SparkSession, rows: DataFrame, directory: str) -> None:
    """Write rows to a directory, in place of what was written there so before; leave alone what else is there.

    What was there goes when everything is written; then only names change.
    """
    new = f"{directory}/{_NEW}"
    rows.write.mode("overwrite").parquet(new)
    for name in sorted(_written_in(spark, directory)):  # the mark of a whole one first, and below last
        _delete(spark, f"{directory}/{name}")
    for name in sorted(_written_in(spark, new), reverse=True):
        _rename(spark, f"{new}/{name}", f"{directory}/{name}")
    _delete(spark, new)


def _written_in(spark: SparkSession, directory: str) -> list[str]:
    names = _names_in(spark, directory)
    return [name for name in names if name == "_SUCCESS" or (name.startswith("part-") and name.endswith(".parquet"))]


def names_of(spark: SparkSession, pattern: str) -> list[str]:
    """Return the names of what a path means, which may be a pattern."""
    files, path = _file_system(spark, pattern)
    return [one.getPath().getName() for one in files.globStatus(path) or ()]


def _names_in(spark: SparkSession, directory: str) -> list[str]:
    files, path = _file_system(spark, directory)
    return [one.getPath().getName() for one in files.listStatus(path)] if files.exists(path) else []


def _delete(spark: SparkSession, place: str) -> None:
    files, path = _file_system(spark, place)
    if not files.delete(path, True) and files.exists(path):  # it also says no of what is not there
        raise JobFailedError(f"{place}: it cannot be deleted")


def _rename(spark: SparkSession, place: str, new_place: str) -> None:
    files, path = _file_system(spark, place)
    if not files.rename(path, _file_system(spark, new_place)[1]):
        raise JobFailedError(f"{place}: it cannot be renamed to {new_place}")


def _file_system(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """Return the file system of a place and its path there, both of Java; those of Spark pass over some names."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
