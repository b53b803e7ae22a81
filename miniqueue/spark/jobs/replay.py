"""Parquet as `archive` has made it back to a topic, in the order in which it was published, in each partition."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.directories import last_step, log_of, names_of
from miniqueue.spark.jobs.inputs import columns_in
from miniqueue.spark.jobs.running import Say, observed, progress, told_in_words

#: What a replay needs; one of a single day has no date, which is the name of its directory.
_COLUMNS: Final = ("topic", "partition", "offset", "key", "value", "headers", "priority")
#: What the directory of a day is called, in front of the date.
_DAY: Final = "date="


class Replay(NamedTuple):
    """What to replay.

    Attributes:
      topic: where the messages go, with keys, headers and priorities.
      directory: of the archive.
      run_id: a replay that runs again with the same one adds nothing that is there.
      since: nothing that was published before; None for all.
      until: nothing that was published then or later; None for all.
    """

    topic: str
    directory: str
    run_id: str
    since: datetime | None = None
    until: datetime | None = None


def replay(spark: SparkSession, job: Replay, say: Say) -> int:
    """Publish what is archived; return how many. Raises ConfigError, or JobFailedError."""
    with told_in_words(), progress(spark, f"replay {job.topic}", say):
        counts = Observation()
        wanted = _within(_archived(spark, job.directory), job)
        counted = wanted.observe(counts, F.count(F.lit(1)).alias("rows"))
        # The number of tasks is fixed: else Spark might divide the rows in another way when the job runs again.
        parts = counted.repartition(spark.sparkContext.defaultParallelism, "topic", "partition", "priority")
        ordered = parts.sortWithinPartitions("topic", "partition", "priority", "offset")
        rows = ordered.select("value", "key", "headers", "priority")
        rows.write.format("miniqueue").mode("append").options(topic=job.topic, runId=job.run_id).save()
        return observed(counts, wanted).get("rows", 0)


def _archived(spark: SparkSession, directory: str) -> DataFrame:
    """Return what is in an archive; raises ConfigError where it is none."""
    present = columns_in(spark, directory)
    if not present:
        raise ConfigError([f"{directory}: nothing is archived there"])
    if missing := [name for name in _COLUMNS if name not in present]:
        raise ConfigError([f"{directory}: that is no archive, it has no column {missing[0]}"])
    return _read(spark, directory)


def _read(spark: SparkSession, directory: str) -> DataFrame:
    """Return the rows of a directory; days are read as a part of their archive, which alone knows what files count."""
    archive, _, _ = directory.rstrip("/").rpartition("/")
    days = [name.removeprefix(_DAY) for name in names_of(spark, directory) if name.startswith(_DAY)]
    if not days or last_step(spark, log_of(archive or ".")) < 0:
        return spark.read.parquet(directory)
    return spark.read.parquet(archive or ".").where(F.col("date").cast("string").isin(days))


def _within(archived: DataFrame, job: Replay) -> DataFrame:
    """Return what was published in time; where there are dates, other days are not even opened."""
    has_dates = "date" in archived.columns
    if job.since is not None:
        archived = archived.where(F.col("published_at") >= job.since)
        archived = archived.where(F.col("date") >= _day(job.since)) if has_dates else archived
    if job.until is not None:
        archived = archived.where(F.col("published_at") < job.until)
        archived = archived.where(F.col("date") <= _day(job.until)) if has_dates else archived
    return archived


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
