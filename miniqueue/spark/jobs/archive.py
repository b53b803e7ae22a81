"""A topic to Parquet, in a directory for each day: what there is now, or on and on.

    <directory>/date=2026-01-31/part-….parquet      the columns of a read; the date is that of published_at in UTC

Both ways are a stream with a checkpoint. So each run goes on where the last one ended, also after a crash, and a
message is in the archive once.
"""

import json
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.streaming.query import StreamingQuery

from miniqueue.spark.jobs.directories import check_checkpoint, last_step, log_of
from miniqueue.spark.jobs.running import Followed, Say, followed, told_in_words
from miniqueue.spark.jobs.topics import WAITED_FOR, bring_group, check_topics
from miniqueue.spark.log_source import bounds_of
from miniqueue.spark.offsets import Offsets, starts_of
from miniqueue.spark.options import topics_in
from miniqueue.spark.source import configured_client

_DAY = "date_from_unix_date(cast(floor(unix_micros(published_at) / 86400000000) as int))"


class Archive(NamedTuple):
    """What to archive.

    Attributes:
      topic: which is read from its earliest message on, in the first run; several with commas between them.
      directory: of the archive.
      checkpoint: where the stream keeps its place; "" for `_checkpoint` in the directory.
      group: of the topic, is where the archive is, a step behind while it runs, so that what is archived can go; ""
        for none.
      every_seconds: how often there is a file of what is new; 0 for what there is now, and an end.
      max_messages: of one file and step at most.
      fail_on_data_loss: whether messages that are gone before they were archived are an error; else they are counted.
    """

    topic: str
    directory: str
    checkpoint: str = ""
    group: str = ""
    every_seconds: float = 0
    max_messages: int = 1_000_000
    fail_on_data_loss: bool = True

    @property
    def place(self) -> str:
        """Where the checkpoint is."""
        return self.checkpoint or f"{self.directory.rstrip('/')}/_checkpoint"


def archive(spark: SparkSession, job: Archive, say: Say) -> Followed:
    """Archive a topic; raises ConfigError, or JobFailedError, after which the same job goes on where it was."""
    with told_in_words():
        check_topics(spark, topics_in(job.topic), say, otherwise=_otherwise(job))
    return archive_source(spark, job, say)


def archive_source(spark: SparkSession, job: Archive, say: Say) -> Followed:
    """Do the same with whatever is registered as `miniqueue`: no broker is asked for its topics."""
    with told_in_words():
        check_checkpoint(spark, job.directory, last_step(spark, log_of(job.directory)), job.place)
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
    """Return what becomes of a topic that is not there; "" for an error."""
    if job.every_seconds:
        return WAITED_FOR
    return "" if job.fail_on_data_loss else "the others are archived"


def _earliest(spark: SparkSession, topics: list[str]) -> Offsets:
    """Return where an archive begins that has no checkpoint; asked here, since what goes from then on is counted."""
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
    writer = writer.option("checkpointLocation", job.place)
    if job.every_seconds:
        return writer.trigger(processingTime=f"{round(job.every_seconds * 1000)} milliseconds").start()
    return writer.trigger(availableNow=True).start()
