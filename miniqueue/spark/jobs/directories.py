"""Directories of jobs, on whatever file system Spark uses, including names that Spark's readers ignore.

<archive>/_spark_metadata/7, 9.compact     a step of a stream that wrote the archive; several steps, merged
<figures>/step=7                           a step of a stream of figures
<checkpoint>/offsets/7                     a step that a stream has begun
<directory>/part-….parquet, _SUCCESS       the result of one batch write
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from miniqueue.errors import ConfigError
from miniqueue.spark.errors import JobFailedError

#: The directory that is written first; Spark's readers ignore names with an underscore.
_NEW: Final = "_new"


def log_of(archive: str) -> str:
    """Return the directory in which Spark records the steps of an archive and their files; no other files count."""
    return f"{archive}/_spark_metadata"


def last_step(spark: SparkSession, directory: str, prefix: str = "") -> int:
    """Return the highest number among the names in a directory, after `prefix`; -1 if there is none."""
    names = [name.removeprefix(prefix) for name in _names_in(spark, directory) if name.startswith(prefix)]
    numbers = [name.partition(".")[0] for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)


def check_checkpoint(spark: SparkSession, directory: str, written: int, checkpoint: str) -> None:
    """Raise ConfigError if a directory has steps that the checkpoint has not begun.

    Steps are identified by their numbers, which restart with each checkpoint. A step is in its checkpoint before it is
    in the directory, so the two match even after a kill.

    Args:
      spark: a session.
      directory: the directory of the job.
      written: the number of the last step in the directory.
      checkpoint: the checkpoint from which the job is to continue.
    """
    if written > last_step(spark, f"{checkpoint}/offsets"):
        problem = f"{directory}: its files belong to another checkpoint than {checkpoint}"
        raise ConfigError([f"{problem}; use that checkpoint, or another directory"])


def replace_parquet(spark: SparkSession, rows: DataFrame, directory: str) -> None:
    """Write rows to a directory, replacing the result of an earlier call; other files there are not changed.

    The earlier result is deleted only when everything is written; after that, files are only renamed.
    """
    new = f"{directory}/{_NEW}"
    rows.write.mode("overwrite").parquet(new)
    # _SUCCESS marks a complete result, so it is deleted first, and renamed last.
    for name in sorted(_written_in(spark, directory)):
        _delete(spark, f"{directory}/{name}")
    for name in sorted(_written_in(spark, new), reverse=True):
        _rename(spark, f"{new}/{name}", f"{directory}/{name}")
    _delete(spark, new)


def _written_in(spark: SparkSession, directory: str) -> list[str]:
    names = _names_in(spark, directory)
    return [name for name in names if name == "_SUCCESS" or (name.startswith("part-") and name.endswith(".parquet"))]


def names_of(spark: SparkSession, pattern: str) -> list[str]:
    """Return the names of the files that match a path or pattern."""
    files, path = _file_system(spark, pattern)
    return [status.getPath().getName() for status in files.globStatus(path) or ()]


def _names_in(spark: SparkSession, directory: str) -> list[str]:
    files, path = _file_system(spark, directory)
    return [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []


def _delete(spark: SparkSession, name: str) -> None:
    files, path = _file_system(spark, name)
    if not files.delete(path, True) and files.exists(path):  # delete also returns false for a missing file
        raise JobFailedError(f"{name}: it cannot be deleted")


def _rename(spark: SparkSession, name: str, new_name: str) -> None:
    files, path = _file_system(spark, name)
    if not files.rename(path, _file_system(spark, new_name)[1]):
        raise JobFailedError(f"{name}: it cannot be renamed to {new_name}")


def _file_system(spark: SparkSession, name: str) -> tuple[Any, Any]:
    """Return Java's file system and path of a name; Spark's own listings omit some names."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(name)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
