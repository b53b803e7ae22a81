"""Replays an archive to a topic: each partition in the order in which it was published."""

from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.directories import last_step, log_of, names_of
from miniqueue.spark.jobs.files.inputs import columns_in
from miniqueue.spark.jobs.running import Say, observed, progress, told_in_words

#: Columns that a replay requires. `date` is not among them: the directory of a single day has it only in its name.
_COLUMNS: Final = ("topic", "partition", "offset", "key", "value", "headers", "priority")
#: Prefix of the directory of a day, before the date.
_DAY: Final = "date="


class Replay(NamedTuple):
    """A replay job.

    Attributes:
      topic: the topic to publish to, with keys, headers and priorities.
      directory: the directory of the archive, or of one of its days.
      run_id: identifies the replay: if it is run again with the same id, it publishes no message twice.
      since: the earliest publish time to replay; None: no limit.
      until: the publish time at which to stop, exclusive; None: no limit.
    """

    topic: str
    directory: str
    run_id: str
    since: datetime | None = None
    until: datetime | None = None


def replay(spark: SparkSession, job: Replay, say: Say) -> int:
    """Publish archived messages; return their number. Raises ConfigError, or JobFailedError."""
    with told_in_words(), progress(spark, f"replay {job.topic}", say):
        counts = Observation()
        wanted = _within(_archived(spark, job.directory), job)
        counted = wanted.observe(counts, F.count(F.lit(1)).alias("rows"))
        # With a fixed number of tasks, Spark divides the rows in the same way when the job is run again.
        parts = counted.repartition(spark.sparkContext.defaultParallelism, "topic", "partition", "priority")
        ordered = parts.sortWithinPartitions("topic", "partition", "priority", "offset")
        rows = ordered.select("value", "key", "headers", "priority")
        rows.write.format("miniqueue").mode("append").options(topic=job.topic, runId=job.run_id).save()
        return observed(counts, wanted).get("rows", 0)


def _archived(spark: SparkSession, directory: str) -> DataFrame:
    """Return the rows of an archive; raises ConfigError if the directory is not an archive."""
    present = columns_in(spark, directory)
    if not present:
        raise ConfigError([f"{directory}: the archive is empty or does not exist"])
    if missing := [name for name in _COLUMNS if name not in present]:
        raise ConfigError([f"{directory}: not an archive; the column {missing[0]} is missing"])
    return _read(spark, directory)


def _read(spark: SparkSession, directory: str) -> DataFrame:
    """Return the rows of a directory; a day is read by way of its archive, which records the files that count."""
    archive, _, _ = directory.rstrip("/").rpartition("/")
    days = [name.removeprefix(_DAY) for name in names_of(spark, directory) if name.startswith(_DAY)]
    if not days or last_step(spark, log_of(archive or ".")) < 0:
        return spark.read.parquet(directory)
    return spark.read.parquet(archive or ".").where(F.col("date").cast("string").isin(days))


def _within(archived: DataFrame, job: Replay) -> DataFrame:
    """Return the rows that were published in the time range; if there are dates, other days are not opened."""
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
