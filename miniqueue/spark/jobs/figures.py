"""Figures of `stats`: rows for a person, and Parquet in a directory.

<directory>/part-….parquet             all there was, in place of what was written before
<directory>/step=7/part-….parquet      windows that were over with the step of a stream; the same again after a crash
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.consumed import Waits
from miniqueue.spark.jobs.directories import check_checkpoint, last_step, replace_parquet
from miniqueue.spark.jobs.inputs import columns_in

SCHEMA: Final = (
    "window_start timestamp, window_end timestamp, topic string, event string, reason string, messages bigint, "
    "bytes bigint, per_second double, p50_ms bigint, p99_ms bigint, measured bigint"
)
PUBLISHED, DEAD = "published", "dead"
#: What the directory of a step is called, in front of its number.
_STEP: Final = "step="


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


def check_figures(spark: SparkSession, directory: str) -> None:
    """Raise ConfigError where a directory holds other Parquet than figures that were written at once."""
    _check_columns(spark, directory, [])


def check_steps_of_figures(spark: SparkSession, directory: str, checkpoint: str) -> None:
    """Raise ConfigError where a directory holds other Parquet than figures by steps, or those of another checkpoint."""
    _check_columns(spark, directory, ["step"])
    check_checkpoint(spark, directory, last_step(spark, directory, _STEP), checkpoint)


def _check_columns(spark: SparkSession, directory: str, of_directories: list[str]) -> None:
    ours = [field.split()[0] for field in SCHEMA.split(", ")] + of_directories
    if (present := columns_in(spark, directory)) and present != ours:
        raise ConfigError([f"{directory}: there is Parquet that is no figures, and that stays"])


class Rows:
    """Where rows go.

    Args:
      spark: a session.
      directory: where Parquet goes; "" for none.
      window_seconds: how long a window is.
      waits: how long messages waited.
      show: gets each row.

    Attributes:
      count: how many rows there were.
    """

    def __init__(self, spark: SparkSession, directory: str, window_seconds: int, waits: Waits, show: Show) -> None:
        self.count = 0
        self._spark = spark
        self._directory = directory
        self._window_seconds = window_seconds
        self._waits = waits
        self._show = show

    def write(self, frame: DataFrame) -> None:
        """Write what was counted, in place of what was written before."""
        found = self._found(frame)
        if self._directory:
            replace_parquet(self._spark, self._written(found), self._directory)
        self._tell(found)

    def write_step(self, frame: DataFrame, number: int) -> None:
        """Write what a step of a stream has counted, in place of what the same step has written before."""
        found = self._found(frame)
        if self._directory and found:
            self._written(found).write.mode("overwrite").parquet(f"{self._directory}/{_STEP}{number}")
        self._tell(found)

    def _found(self, frame: DataFrame) -> list[Figures]:
        return [self._figures(one) for one in frame.orderBy("window", "topic", "event", "reason").collect()]

    def _written(self, found: list[Figures]) -> DataFrame:
        return self._spark.createDataFrame(found, SCHEMA).coalesce(1)

    def _tell(self, found: list[Figures]) -> None:
        for one in found:
            self._show(one)
        self.count += len(found)

    def _figures(self, row: Any) -> Figures:  # noqa: ANN401 - its columns are those of `stats.counted`
        measured, (p50_ms, p99_ms) = row.measured, row.waited or (None, None)
        if row.event == PUBLISHED:
            measured, p50_ms, p99_ms = percentiles(self._waits.of(row.sample))
        return Figures(
            row.window.start,
            row.window.end,
            row.topic,
            row.event,
            row.reason,
            row.messages,
            row.bytes or 0,
            row.messages / self._window_seconds,
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
