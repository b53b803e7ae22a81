"""Directories as jobs leave them, on whatever file system Spark reads, with the names that its readers pass over.

<archive>/_spark_metadata/7, 9.compact     a step of a stream that wrote the archive; several together
<figures>/step=7                           the same of a stream of figures
<checkpoint>/offsets/7                     a step that a stream has begun
"""

from typing import Any

from pyspark.sql import SparkSession

from miniqueue.errors import ConfigError


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


def _names_in(spark: SparkSession, directory: str) -> list[str]:
    files, path = _file_system(spark, directory)
    return [one.getPath().getName() for one in files.listStatus(path)] if files.exists(path) else []


def _file_system(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """Return the file system of a place and its path there, both of Java; those of Spark pass over some names."""
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
