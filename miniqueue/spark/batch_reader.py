"""Reading topics once: what there is between two places, or two times, a task for each range of a partition."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from miniqueue.spark.filters import Narrowing
from miniqueue.spark.log_source import check_topics, offsets_at, read_as_asked
from miniqueue.spark.offsets import Range, divided, ranges_between
from miniqueue.spark.options import Options


@dataclass
class RangeOfLog(InputPartition):
    """The part of a read that one task does."""

    range: Range


class BatchReader(DataSourceReader):
    """Reads topics as they are when the query is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Read less where conditions allow it; Spark checks all of them again."""
        self._narrowing.add(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return what each task is to read."""
        with self._options.client() as client:
            check_topics(client, self._options)
            start = offsets_at(client, self._options, "starting", "earliest")
            end = offsets_at(client, self._options, "ending", "latest")
        ranges = self._narrowing.narrowed(ranges_between(start, end))
        return [RangeOfLog(one) for one in divided(ranges, self._options["minPartitions"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range, on an executor."""
        if not isinstance(partition, RangeOfLog):
            return  # Spark's own, where there is nothing to read
        yield from read_as_asked(self._options, partition.range)
