"""Archives a topic as Parquet, in a directory for each day: what exists now, or continuously.

    <directory>/date=2026-01-31/part-….parquet      the columns of a read; the date is that of published_at in UTC

Both are a stream with a checkpoint. Each run therefore continues where the last one ended, even after a crash, and
each message is in the archive once.
"""

import json
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.streaming.query import StreamingQuery

from miniqueue.spark.jobs.directories import check_checkpoint, last_step, log_of
from miniqueue.spark.jobs.running import WAITED_FOR, Followed, Say, bring_group, check_topics, followed, told_in_words
from miniqueue.spark.log_source import bounds_of
from miniqueue.spark.offsets import Offsets, starts_of
from miniqueue.spark.options import topics_in
from miniqueue.spark.source import configured_client

_DAY = "date_from_unix_date(cast(floor(unix_micros(published_at) / 86400000000) as int))"


class Archive(NamedTuple):
    """An archive job.

    Attributes:
      topic: the topic, or several, separated by commas; the first run starts at the earliest message.
      directory: the directory of the archive.
      checkpoint: the directory of the stream's checkpoint; "": `_checkpoint` in the archive.
      group: a group of the topic that follows the archive, one step late while it runs, so that the broker can delete
        archived messages; "": none.
      every_seconds: how often to write a file of new messages; 0: archive what exists now, then end.
      max_messages: maximum number of messages of one step, and so of one file.
      fail_on_data_loss: whether messages that were deleted before they were archived are an error; otherwise they are
        counted.
    """

    topic: str
    directory: str
    checkpoint: str = ""
    group: str = ""
    every_seconds: float = 0
    max_messages: int = 1_000_000
    fail_on_data_loss: bool = True

    @property
    def checkpoint_directory(self) -> str:
        """The directory of the checkpoint."""
        return self.checkpoint or f"{self.directory.rstrip('/')}/_checkpoint"


def archive(spark: SparkSession, job: Archive, say: Say) -> Followed:
    """Archive a topic; raises ConfigError, or JobFailedError, after which the same job continues where it was."""
    with told_in_words():
        check_topics(spark, topics_in(job.topic), say, otherwise=_otherwise(job))
    return archive_source(spark, job, say)


def archive_source(spark: SparkSession, job: Archive, say: Say) -> Followed:
    """Archive from any source that is registered as `miniqueue`, without asking a broker for its topics."""
    with told_in_words():
        check_checkpoint(spark, job.directory, last_step(spark, log_of(job.directory)), job.checkpoint_directory)
        begins = None if job.fail_on_data_loss else _earliest(spark, topics_in(job.topic))
        query = _start(_messages(spark, job, begins), job)
        try:
            done = followed(query, f"archive {job.topic}", say, begins)
        finally:
            query.stop()
        if job.group:
            bring_group(spark, job.group, query)
        return done


def _otherwise(job: Archive) -> str:
    """Return what to report of a topic that does not exist; "" if it is an error."""
    if job.every_seconds:
        return WAITED_FOR
    return "" if job.fail_on_data_loss else "the others are archived"


def _earliest(spark: SparkSession, topics: list[str]) -> Offsets:
    """Return the start of an archive without a checkpoint; messages deleted after this request count as lost."""
    with configured_client(spark) as client:
        return starts_of(bounds_of(client, topics))


def _messages(spark: SparkSession, job: Archive, begins: Offsets | None) -> DataFrame:
    options: dict[str, Any] = {"startingOffsets": json.dumps(begins) if begins else "earliest"}
    options["maxMessagesPerTrigger"] = job.max_messages
    options["failOnDataLoss"] = job.fail_on_data_loss
    if job.group:
        options["group"] = job.group
    parts = spark.sparkContext.defaultParallelism
    source = spark.readStream.format("miniqueue").options(**options, minPartitions=parts)
    return source.load(job.topic).withColumn("date", F.expr(_DAY))


def _start(messages: DataFrame, job: Archive) -> StreamingQuery:
    writer = messages.writeStream.format("parquet").partitionBy("date").option("path", job.directory)
    writer = writer.option("checkpointLocation", job.checkpoint_directory)
    if job.every_seconds:
        return writer.trigger(processingTime=f"{round(job.every_seconds * 1000)} milliseconds").start()
    return writer.trigger(availableNow=True).start()
