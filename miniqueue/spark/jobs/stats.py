"""What happened in topics, by windows of time: how much was published, how long it waited, and what died and why.

    window start, end  topic  event      reason   messages  bytes  per second   waited p50, p99  of
    08:00:00  :01:00   rides  published  –        120,000   12 MB  2,000        35 ms   210 ms   32
    08:00:00  :01:00   rides  dead       limit    3         99     0.05         9 s     12 s     3

Read is the log of the topics and of their dead letters, so what is there no more is not counted: a topic keeps its
messages with the setting `retention`. How long a message waited is the time from its publish until it was acknowledged,
which the broker knows where the setting `trace` is on: of some messages of each window, chosen at random, it is asked
(`consumed`). Of dead letters it is the time until they died, which is known of all.

All at once, what there is; or as a stream, a window when it is over, once, also after a crash: the stream has a
checkpoint, and what a step writes again replaces what it wrote before.
"""

from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.spark.jobs.consumed import Waits
from miniqueue.spark.jobs.figures import DEAD, PUBLISHED, Rows, Show, check_figures, check_steps_of_figures
from miniqueue.spark.jobs.running import Say, followed, having_set, progress, told_in_words
from miniqueue.spark.jobs.topics import WAITED_FOR, check_topics
from miniqueue.spark.options import topics_in
from miniqueue.spark.source import configured_client

SAMPLE: Final = 32
#: Reasons are what consumers say; this much of them is told apart.
_REASON_CHARS: Final = 120
_TASKS: Final = "spark.sql.shuffle.partitions"


class Stats(NamedTuple):
    """What to count.

    Attributes:
      topics: with commas between them.
      directory: where Parquet goes; "" for none.
      window_seconds: how long a window is.
      every_seconds: how often the stream looks for windows that are over; 0 for all there is now, and an end.
      late_seconds: how long after its end a window of the stream may still get messages: those of dead letters.
      checkpoint: where the stream keeps its place; "" for `_checkpoint` in the directory, or none that is kept.
      dead_letters: the topics of dead letters; "" for those with `.dlq` behind their names.
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
    def place(self) -> str:
        """Where the checkpoint is; "" for none that is kept."""
        return self.checkpoint or (f"{self.directory.rstrip('/')}/_checkpoint" if self.directory else "")


def stats(spark: SparkSession, job: Stats, show: Show, say: Say) -> int:
    """Count; return how many rows there are. Raises ConfigError, or JobFailedError.

    Args:
      spark: a session.
      job: what to count.
      show: gets each row.
      say: gets how far it is.
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
        check_steps_of_figures(spark, job.directory, job.place)
    elif job.directory:
        check_figures(spark, job.directory)


def _read(spark: SparkSession, reader: Any, job: Stats) -> DataFrame:  # noqa: ANN401 - of a batch or of a stream
    source = reader.format("miniqueue").option("startingOffsets", "earliest").option("withOrigin", "true")
    source = source.option("minPartitions", spark.sparkContext.defaultParallelism)  # else a task for each partition
    frame: DataFrame = source.option("failOnDataLoss", "false").load(job.read)
    return frame


def _stream(spark: SparkSession, job: Stats, rows: Rows, say: Say) -> None:
    messages = _read(spark, spark.readStream, job).withWatermark("published_at", f"{job.late_seconds} seconds")
    writer = counted(messages, job).writeStream.queryName(f"stats {job.topics}").outputMode("append")
    writer = writer.foreachBatch(rows.write_step)
    if job.place:
        writer = writer.option("checkpointLocation", job.place)
    writer = writer.trigger(processingTime=f"{round(job.every_seconds * 1000)} milliseconds")
    # A task for each core: there is little to keep, and a step waits for all.
    with having_set(spark, {_TASKS: str(spark.sparkContext.defaultParallelism)}):
        query = writer.start()
    try:
        followed(query, f"stats {job.topics}", say)
    finally:
        query.stop()


def counted(messages: DataFrame, job: Stats) -> DataFrame:
    """Return a row for each window, topic, event and reason, with some ids of its messages."""
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
    """Return one message of a group, chosen by a hash: another one for each number, with room for one in memory."""
    return F.min_by("message", F.xxhash64(F.lit(number), "message.topic", "message.id"))
