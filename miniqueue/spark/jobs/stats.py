"""Counts what happened in topics, by windows of time: messages published, their waits, and dead letters by reason.

    window start, end  topic  event      reason   messages  bytes  per second   waited p50, p99  of
    08:00:00  :01:00   rides  published  –        120,000   12 MB  2,000        35 ms   210 ms   32
    08:00:00  :01:00   rides  dead       limit    3         99     0.05         9 s     12 s     3

The job reads the logs of the topics and of their dead letters, so deleted messages are not counted; a topic keeps its
messages with the setting `retention`. A message waits from its publish until it is acknowledged. The broker knows that
time if the setting `trace` is on; the job asks for a random sample of the messages of each window (`waits`). A dead
letter waits until it is dead-lettered, which is known of all of them.

A batch counts what exists now. A stream counts each window once, when it is over, even after a crash: it has a
checkpoint, and a step that is repeated replaces what it wrote before.
"""

from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.spark.jobs.figures import DEAD, PUBLISHED, Rows, Show, check_figures, check_steps_of_figures
from miniqueue.spark.jobs.running import WAITED_FOR, Say, check_topics, followed, having_set, progress, told_in_words
from miniqueue.spark.jobs.waits import Waits
from miniqueue.spark.options import topics_in
from miniqueue.spark.source import configured_client

#: Number of messages of a window whose waits are requested: enough for a p99, few enough for large windows.
SAMPLE: Final = 32
#: Consumers choose the texts of reasons. Only this much of them is compared, which limits the number of rows.
_REASON_CHARS: Final = 120
_TASKS: Final = "spark.sql.shuffle.partitions"


class Stats(NamedTuple):
    """A stats job.

    Attributes:
      topics: the topics, separated by commas.
      directory: the directory for Parquet; "": none.
      window_seconds: the length of a window.
      every_seconds: how often the stream checks for windows that are over; 0: count what exists now, then end.
      late_seconds: how long after its end a window of the stream can still get messages, such as dead letters.
      checkpoint: the directory of the stream's checkpoint; "": `_checkpoint` in the directory, or a temporary one.
      dead_letters: the topics of dead letters; "": the names of the topics with `.dlq` appended.
    """

    topics: str
    directory: str = ""
    window_seconds: int = 60
    every_seconds: float = 0
    late_seconds: int = 60
    checkpoint: str = ""
    dead_letters: str = ""

    @property
    def read(self) -> str:
        """The topics to read."""
        names = topics_in(self.topics)
        return ",".join(dict.fromkeys([*names, *(self.dead_letters or ",".join(f"{n}.dlq" for n in names)).split(",")]))

    @property
    def checkpoint_directory(self) -> str:
        """The directory of the checkpoint; "" if it is temporary."""
        return self.checkpoint or (f"{self.directory.rstrip('/')}/_checkpoint" if self.directory else "")


def stats(spark: SparkSession, job: Stats, show: Show, say: Say) -> int:
    """Count messages by windows; return the number of rows. Raises ConfigError, or JobFailedError.

    Args:
      spark: a session.
      job: the job.
      show: called with each row.
      say: called with each report of the progress.
    """
    with told_in_words(), configured_client(spark) as client:
        check_topics(spark, topics_in(job.topics), say, otherwise=WAITED_FOR if job.every_seconds else "")
        _check_directory(spark, job)
        rows = Rows(spark, job.directory, job.window_seconds, Waits(client), show)
        if not job.every_seconds:
            with progress(spark, f"stats {job.topics}", say):
                rows.write(counted(_read(spark, spark.read, job), job))
        else:
            _stream(spark, job, rows, say)
    return rows.count


def _check_directory(spark: SparkSession, job: Stats) -> None:
    if job.directory and job.every_seconds:
        check_steps_of_figures(spark, job.directory, job.checkpoint_directory)
    elif job.directory:
        check_figures(spark, job.directory)


def _read(spark: SparkSession, reader: Any, job: Stats) -> DataFrame:  # noqa: ANN401 - of a batch or of a stream
    source = reader.format("miniqueue").option("startingOffsets", "earliest").option("withOrigin", "true")
    source = source.option("minPartitions", spark.sparkContext.defaultParallelism)  # not one task for each partition
    frame: DataFrame = source.option("failOnDataLoss", "false").load(job.read)
    return frame


def _stream(spark: SparkSession, job: Stats, rows: Rows, say: Say) -> None:
    messages = _read(spark, spark.readStream, job).withWatermark("published_at", f"{job.late_seconds} seconds")
    writer = counted(messages, job).writeStream.queryName(f"stats {job.topics}").outputMode("append")
    writer = writer.foreachBatch(rows.write_step)
    if job.checkpoint_directory:
        writer = writer.option("checkpointLocation", job.checkpoint_directory)
    writer = writer.trigger(processingTime=f"{round(job.every_seconds * 1000)} milliseconds")
    # One task for each core: the state is small, and a step waits for all tasks.
    with having_set(spark, {_TASKS: str(spark.sparkContext.defaultParallelism)}):
        query = writer.start()
    try:
        followed(query, f"stats {job.topics}", say)
    finally:
        query.stop()


def counted(messages: DataFrame, job: Stats) -> DataFrame:
    """Return a row for each window, topic, event and reason, with a sample of its messages."""
    is_dead = F.col("origin").isNotNull()
    waited = F.when(is_dead, F.unix_millis("origin.died_at") - F.unix_millis("origin.published_at"))
    named = messages.select(
        F.col("published_at"),
        F.struct("topic", "id", "published_at").alias("message"),
        F.coalesce("origin.topic", "topic").alias("topic"),
        F.when(is_dead, DEAD).otherwise(PUBLISHED).alias("event"),
        F.substring("origin.reason", 1, _REASON_CHARS).alias("reason"),
        F.octet_length("value").alias("size"),
        waited.alias("waited_ms"),
    )
    window = F.window("published_at", f"{job.window_seconds} seconds").alias("window")
    return named.groupBy(window, "topic", "event", "reason").agg(
        F.count(F.lit(1)).alias("messages"),
        F.sum("size").alias("bytes"),
        F.percentile_approx("waited_ms", [0.5, 0.99]).alias("waited"),
        F.count("waited_ms").alias("measured"),
        F.array(*(_any_message(number) for number in range(SAMPLE))).alias("sample"),
    )


def _any_message(number: int) -> Column:
    """Return one message of a group, chosen by a hash that depends on `number`; needs memory for one message."""
    return F.min_by("message", F.xxhash64(F.lit(number), "message.topic", "message.id"))
