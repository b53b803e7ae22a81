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

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.consumed import Waits
from miniqueue.spark.jobs.directories import check_checkpoint, last_step, replace_parquet
from miniqueue.spark.jobs.inputs import columns_in
from miniqueue.spark.jobs.running import Say, followed, having_set, progress, told_in_words
from miniqueue.spark.source import configured_client

SAMPLE: Final = 32
SCHEMA: Final = (
    "window_start timestamp, window_end timestamp, topic string, event string, reason string, messages bigint, "
    "bytes bigint, per_second double, p50_ms bigint, p99_ms bigint, measured bigint"
)
#: Reasons are what consumers say; this much of them is told apart.
_REASON_CHARS: Final = 120
_TASKS: Final = "spark.sql.shuffle.partitions"
#: What the directory of a step is called, in front of its number.
_STEP: Final = "step="
_PUBLISHED, _DEAD = "published", "dead"


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
        names = [name for name in (word.strip() for word in self.topics.split(",")) if name]
        return ",".join(dict.fromkeys([*names, *(self.dead_letters or ",".join(f"{n}.dlq" for n in names)).split(",")]))

    @property
    def place(self) -> str:
        """Where the checkpoint is; "" for none that is kept."""
        return self.checkpoint or (f"{self.directory.rstrip('/')}/_checkpoint" if self.directory else "")


class Figures(NamedTuple):
    """A row of the result: what happened in a topic in a window; times in UTC.

    Attributes:
      window_start: when the window begins.
      window_end: when it ends.
      topic: where; of dead letters where they came from.
      event: `published` or `dead`.
      reason: of dead letters; None of others.
      messages: how many.
      bytes: of their payloads.
      per_second: messages, over the length of the window.
      p50_ms: how long half of those measured waited at most; None where nothing is known.
      p99_ms: how long 99 of 100 did.
      measured: of how many messages it is known.
    """

    window_start: datetime
    window_end: datetime
    topic: str
    event: str
    reason: str | None
    messages: int
    bytes: int
    per_second: float
    p50_ms: int | None
    p99_ms: int | None
    measured: int


Show: TypeAlias = Callable[[Figures], None]


def stats(spark: SparkSession, job: Stats, show: Show, say: Say) -> int:
    """Count; return how many rows there are. Raises ConfigError, or JobFailedError.

    Args:
      spark: a session.
      job: what to count.
      show: gets each row.
      say: gets how far it is.
    """
    with told_in_words(), configured_client(spark) as client:
        _check_directory(spark, job)
        rows = _Rows(spark, job, Waits(client), show)
        if not job.every_seconds:
            with progress(spark, f"stats {job.topics}", say):
                rows.write(counted(_read(spark, spark.read, job), job))
        else:
            _stream(spark, job, rows, say)
    return rows.count


def _check_directory(spark: SparkSession, job: Stats) -> None:
    """Raise ConfigError where the directory holds other Parquet than figures, or steps of another checkpoint."""
    ours = [field.split()[0] for field in SCHEMA.split(", ")] + (["step"] if job.every_seconds else [])
    if job.directory and (present := columns_in(spark, job.directory)) and present != ours:
        raise ConfigError([f"{job.directory}: there is Parquet that is no figures, and that stays"])
    if job.directory and job.every_seconds:
        check_checkpoint(spark, job.directory, last_step(spark, job.directory, _STEP), job.place)


def _read(spark: SparkSession, reader: Any, job: Stats) -> DataFrame:  # noqa: ANN401 - of a batch or of a stream
    source = reader.format("miniqueue").option("startingOffsets", "earliest").option("withOrigin", "true")
    source = source.option("minPartitions", spark.sparkContext.defaultParallelism)  # else a task for each partition
    frame: DataFrame = source.option("failOnDataLoss", "false").load(job.read)
    return frame


def _stream(spark: SparkSession, job: Stats, rows: "_Rows", say: Say) -> None:
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
        F.when(is_dead, _DEAD).otherwise(_PUBLISHED).alias("event"),
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


class _Rows:
    """Where rows go."""

    def __init__(self, spark: SparkSession, job: Stats, waits: Waits, show: Show) -> None:
        self.count = 0
        self._spark = spark
        self._job = job
        self._waits = waits
        self._show = show

    def write(self, frame: DataFrame) -> None:
        """Write what was counted, in place of what was written before."""
        found = self._found(frame)
        if self._job.directory:
            replace_parquet(self._spark, self._written(found), self._job.directory)
        self._tell(found)

    def write_step(self, frame: DataFrame, number: int) -> None:
        """Write what a step of a stream has counted, in place of what the same step has written before."""
        found = self._found(frame)
        if self._job.directory and found:
            self._written(found).write.mode("overwrite").parquet(f"{self._job.directory}/{_STEP}{number}")
        self._tell(found)

    def _found(self, frame: DataFrame) -> list[Figures]:
        return [self._figures(one) for one in frame.orderBy("window", "topic", "event", "reason").collect()]

    def _written(self, found: list[Figures]) -> DataFrame:
        return self._spark.createDataFrame(found, SCHEMA).coalesce(1)

    def _tell(self, found: list[Figures]) -> None:
        for one in found:
            self._show(one)
        self.count += len(found)

    def _figures(self, row: Any) -> Figures:  # noqa: ANN401 - its columns are those of `counted`
        measured, (p50_ms, p99_ms) = row.measured, row.waited or (None, None)
        if row.event == _PUBLISHED:
            measured, p50_ms, p99_ms = percentiles(self._waits.of(row.sample))
        return Figures(
            row.window.start,
            row.window.end,
            row.topic,
            row.event,
            row.reason,
            row.messages,
            row.bytes or 0,
            row.messages / self._job.window_seconds,
            p50_ms,
            p99_ms,
            measured,
        )


def percentiles(waits_ms: Sequence[int]) -> tuple[int, int | None, int | None]:
    """Return how many there are, and how long half of them waited at most, and 99 of 100."""
    if not waits_ms:
        return 0, None, None
    ordered = sorted(waits_ms)
    return len(ordered), ordered[(len(ordered) - 1) // 2], ordered[-(-len(ordered) * 99 // 100) - 1]
