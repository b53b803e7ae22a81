"""Reading topics as a stream: a range of offsets for each micro-batch, kept in Spark's checkpoint.

A micro-batch that runs again reads the same offsets, so the same rows, as long as the topic keeps them (`retention`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from miniqueue.client import Client
from miniqueue.errors import ConfigError
from miniqueue.spark.batch_reader import RangeOfLog
from miniqueue.spark.log_source import bounds_of, offsets_at, read_as_asked
from miniqueue.spark.losses import TopicRestartedError
from miniqueue.spark.offsets import Offsets, begun, divided, ends_of, limited, ranges_between
from miniqueue.spark.options import Options
from miniqueue.spark.progress import make_groups, move_groups


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics micro-batch by micro-batch; one of these plans, for as long as the query lives."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: Client = options.client()
        self._target: Offsets | None = None
        self._has_groups = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        """Return where a new query begins."""
        return offsets_at(self._client, self._options, "starting", "latest")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return how much a micro-batch may have."""
        limit = self._options["maxMessagesPerTrigger"]
        return ReadMaxRows(limit) if limit else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends."""
        end = self._ends() if self._target is None else self._target
        end = self._checked(start, end)
        self._have_groups(begun(start, end))
        return limited(start, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return where the topics end, for the progress of the query."""
        return self._ends()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what there is now for all there will be."""
        self._target = self._ends()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what each task of a micro-batch is to read."""
        return [
            RangeOfLog(one)
            for one in divided(ranges_between(start, end, restarts=True), self._options["minPartitions"])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        assert isinstance(partition, RangeOfLog)
        yield from read_as_asked(self._options, partition.range)

    def commit(self, end: dict[str, Any]) -> None:
        """Have the group go on: what is in front of `end` was processed."""
        if self._options["group"]:
            move_groups(self._client, self._options["group"], end)

    def stop(self) -> None:
        """Close the connection of the planning."""
        self._client.close()

    def _ends(self) -> Offsets:
        return ends_of(bounds_of(self._client, self._options.topics))

    def _have_groups(self, start: Offsets) -> None:
        """Make the group where the first micro-batch begins that is planned here: a checkpoint may be without it."""
        if self._options["group"] and not self._has_groups:
            make_groups(self._client, self._options["group"], start)
            self._has_groups = True

    def _checked(self, start: Offsets, end: Offsets) -> Offsets:
        """Return `end`, of topics that a stream has read up to `start`.

        Raises ConfigError if these are other topics, and TopicRestartedError if one ends in front of where it was read.
        """
        if others := sorted(start.keys() - end.keys()):
            raise ConfigError([f"the checkpoint is that of a stream that reads {', '.join(others)}, too; take another"])
        for topic, of in start.items():
            for word, offset in of.items():
                now = end[topic].get(word, 0)
                if now < offset and self._options["failOnDataLoss"]:
                    raise TopicRestartedError(topic, word, offset, now)
        return end
