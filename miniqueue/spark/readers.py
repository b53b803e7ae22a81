"""Readers that Spark calls: a batch, which reads once, and a stream, which reads micro-batch by micro-batch.

A batch reads from one offset or time to another, in a task for each range of a partition. A stream reads a range of
offsets in each micro-batch; Spark keeps them in its checkpoint. A micro-batch that is run again reads the same offsets,
and so the same rows, as long as the topic keeps them (`retention`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from miniqueue.errors import ConfigError
from miniqueue.spark.errors import TopicRestartedError
from miniqueue.spark.filters import Narrowing
from miniqueue.spark.log_source import bounds_of, check_topics, offsets_at, read_as_asked
from miniqueue.spark.offsets import Offsets, Range, begun, divided, ends_of, limited, ranges_between
from miniqueue.spark.options import Options
from miniqueue.spark.progress import make_groups, move_groups
from miniqueue_client import Client


@dataclass
class RangeOfLog(InputPartition):
    """The range that one task reads."""

    range: Range


class BatchReader(DataSourceReader):
    """Reads topics as they are when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use the filters to read less; return all of them, so that Spark checks every row."""
        self._narrowing.add(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of the tasks."""
        with self._options.client() as client:
            check_topics(client, self._options)
            start = offsets_at(client, self._options, "starting", "earliest")
            end = offsets_at(client, self._options, "ending", "latest")
        ranges = self._narrowing.narrowed(ranges_between(start, end))
        return [RangeOfLog(part) for part in divided(ranges, self._options["minPartitions"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        if not isinstance(partition, RangeOfLog):
            return  # Spark's own partition, if there is nothing to read
        yield from read_as_asked(self._options, partition.range)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics micro-batch by micro-batch; one reader on the driver plans all of them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: Client = options.client()
        self._target: Offsets | None = None
        self._has_groups = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Return the offsets at which a new query starts."""
        return offsets_at(self._client, self._options, "starting", "latest")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the maximum size of a micro-batch."""
        limit = self._options["maxMessagesPerTrigger"]
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offsets at which the next micro-batch ends."""
        end = self._ends() if self._target is None else self._target
        end = self._checked(start, end)
        self._ensure_groups(begun(start, end))
        return limited(start, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the topics, for the progress report of the query."""
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the present ends of the topics as the end of the query."""
        self._target = self._ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of the tasks of a micro-batch."""
        return [
            RangeOfLog(part)
            for part in divided(ranges_between(start, end, restarts=True), self._options["minPartitions"])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        assert isinstance(partition, RangeOfLog)
        yield from read_as_asked(self._options, partition.range)

    def commit(self, end: dict[str, Any]) -> None:
        """Move the group to `end`: the messages before it have been processed."""
        if self._options["group"]:
            move_groups(self._client, self._options["group"], end)

    def stop(self) -> None:
        """Close the driver's connection."""
        self._client.close()

    def _ends(self) -> Offsets:
        return ends_of(bounds_of(self._client, self._options.topics))

    def _ensure_groups(self, start: Offsets) -> None:
        """Create the group at the start of the first planned micro-batch; a stream with a checkpoint may lack it."""
        if self._options["group"] and not self._has_groups:
            make_groups(self._client, self._options["group"], start)
            self._has_groups = True

    def _checked(self, start: Offsets, end: Offsets) -> Offsets:
        """Return `end` after checking it against `start`, the offsets up to which the stream has read.

        Raises ConfigError if `start` has other topics, and TopicRestartedError if a topic ends before its start.
        """
        if others := sorted(start.keys() - end.keys()):
            raise ConfigError(
                [f"the checkpoint belongs to a stream that also reads {', '.join(others)}; use another checkpoint"]
            )
        for topic, of in start.items():
            for word, offset in of.items():
                now = end[topic].get(word, 0)
                if now < offset and self._options["failOnDataLoss"]:
                    raise TopicRestartedError(topic, word, offset, now)
        return end
