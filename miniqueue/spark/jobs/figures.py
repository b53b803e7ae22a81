"""Figures of `stats`: rows for a person, and Parquet in a directory.

<directory>/part-….parquet             the result of a batch, which replaces an earlier one
<directory>/step=7/part-….parquet      windows that a step of a stream has closed; the same files after a crash
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.directories import check_checkpoint, last_step, replace_parquet
from miniqueue.spark.jobs.files.inputs import columns_in
from miniqueue.spark.jobs.waits import Waits

SCHEMA: Final = (
    "window_start timestamp, window_end timestamp, topic string, event string, reason string, messages bigint, "
    "bytes bigint, per_second double, p50_ms bigint, p99_ms bigint, measured bigint"
)
PUBLISHED, DEAD = "published", "dead"
#: Prefix of the directory of a step, before its number.
_STEP: Final = "step="


class Figures(NamedTuple):
    """A row of the result: the messages of a topic in a window; times are in UTC.

    Attributes:
      window_start: the start of the window.
      window_end: the end of the window.
      topic: the topic; for dead letters, the topic that they came from.
      event: `published` or `dead`.
      reason: the reason of dead letters; otherwise None.
      messages: number of messages.
      bytes: total size of their payloads.
      per_second: messages per second of the window.
      p50_ms: median of the wait; None if no wait is known.
      p99_ms: 99th percentile of the wait; None if no wait is known.
      measured: number of messages whose wait is known.
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
    """Raise ConfigError if a directory contains Parquet other than the figures of a batch."""
    _check_columns(spark, directory, [])


def check_steps_of_figures(spark: SparkSession, directory: str, checkpoint: str) -> None:
    """Raise ConfigError if a directory contains Parquet other than figures of the steps of this checkpoint."""
    _check_columns(spark, directory, ["step"])
    check_checkpoint(spark, directory, last_step(spark, directory, _STEP), checkpoint)


def _check_columns(spark: SparkSession, directory: str, of_directories: list[str]) -> None:
    ours = [field.split()[0] for field in SCHEMA.split(", ")] + of_directories
    if (present := columns_in(spark, directory)) and present != ours:
        raise ConfigError([f"{directory}: contains other Parquet than figures; use another directory"])


class Rows:
    """Writes rows of the result.

    Args:
      spark: a session.
      directory: the directory for Parquet; "": none.
      window_seconds: the length of a window.
      waits: finds out how long messages waited.
      show: called with each row.

    Attributes:
      count: number of rows so far.
    """

    def __init__(self, spark: SparkSession, directory: str, window_seconds: int, waits: Waits, show: Show) -> None:
        self.count = 0
        self._spark = spark
        self._directory = directory
        self._window_seconds = window_seconds
        self._waits = waits
        self._show = show

    def write(self, frame: DataFrame) -> None:
        """Write the result of a batch, replacing an earlier one."""
        rows = self._collected(frame)
        if self._directory:
            replace_parquet(self._spark, self._frame_of(rows), self._directory)
        self._show_all(rows)

    def write_step(self, frame: DataFrame, number: int) -> None:
        """Write the result of a step of a stream, replacing what the same step wrote before a crash."""
        rows = self._collected(frame)
        if self._directory and rows:
            self._frame_of(rows).write.mode("overwrite").parquet(f"{self._directory}/{_STEP}{number}")
        self._show_all(rows)

    def _collected(self, frame: DataFrame) -> list[Figures]:
        return [self._figures(row) for row in frame.orderBy("window", "topic", "event", "reason").collect()]

    def _frame_of(self, rows: list[Figures]) -> DataFrame:
        return self._spark.createDataFrame(rows, SCHEMA).coalesce(1)

    def _show_all(self, rows: list[Figures]) -> None:
        for row in rows:
            self._show(row)
        self.count += len(rows)

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
    """Return the number of waits, their median and their 99th percentile; None for both if there are none."""
    if not waits_ms:
        return 0, None, None
    ordered = sorted(waits_ms)
    return len(ordered), ordered[(len(ordered) - 1) // 2], ordered[-(-len(ordered) * 99 // 100) - 1]
