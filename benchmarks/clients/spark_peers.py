"""What takes the place of miniqueue in the same jobs of Spark: a sink that does nothing, and streams of Redis.

They are registered under the name `miniqueue`, so that the jobs under measurement need not know. Redis is written by
redis-py in pipelines of as many commands as the sink of miniqueue has rows in a request, and read by XRANGE, a task for
each stream; a task that writes has a stream of its own.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import redis
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from miniqueue.spark.options import OPTIONS
from miniqueue.spark.rows import ARROW_SCHEMA, SCHEMA

BATCH = int(OPTIONS["batchMessages"].default)
PAGE = 10_000
#: Streams, one for each core that Spark has here.
STREAMS = 2


class NoSink(DataSource, DataSourceArrowWriter):
    """Takes rows as they come and drops them."""

    @classmethod
    def name(cls) -> str:
        """Return what it is taken for."""
        return "miniqueue"

    def writer(self, schema: object, overwrite: bool) -> DataSourceArrowWriter:
        """Return what is written to."""
        return self

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Drop the rows of a task."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class RedisStreams(DataSource):
    """Streams of Redis as a sink and a source.

    Attributes:
      port: the port of Redis, set in a subclass.
    """

    port = 0

    @classmethod
    def name(cls) -> str:
        """Return what it is taken for."""
        return "miniqueue"

    def schema(self) -> str:
        """Return the columns of a read of miniqueue."""
        return SCHEMA

    def writer(self, schema: object, overwrite: bool) -> DataSourceArrowWriter:
        """Return what is written to."""
        return _Writer(self.port)

    def reader(self, schema: object) -> DataSourceReader:
        """Return what reads once."""
        return _Reader(self.port)

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads on and on."""
        return _StreamReader(self.port)


def xadd(port: int, stream: str, rows: Iterable[dict[str, Any]]) -> None:
    """Add rows to a stream, in pipelines."""
    rows = iter(rows)
    with redis.Redis(port=port) as client, client.pipeline(transaction=False) as pipeline:
        while batch := list(islice(rows, BATCH)):
            for row in batch:
                pipeline.xadd(stream, row)
            pipeline.execute()


class _Writer(DataSourceArrowWriter):
    def __init__(self, port: int) -> None:
        self._port = port

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        rows = (row for batch in iterator for row in _fields(batch))
        xadd(self._port, stream_of(task.partitionId()), rows)
        return WriterCommitMessage()


def _fields(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    names = [name for name in ("value", "key") if name in batch.schema.names]
    columns = [batch.column(name).to_pylist() for name in names]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def stream_of(task: int) -> str:
    """Return the name of a task's stream."""
    return f"bench-{task % STREAMS}"


class _Part(InputPartition):
    """A stream, from behind one id to another one."""

    def __init__(self, stream: str, after: str, last: str) -> None:
        super().__init__(stream)
        self.stream, self.after, self.last = stream, after, last


class _Reader(DataSourceReader):
    def __init__(self, port: int) -> None:
        self._port = port

    def partitions(self) -> list[InputPartition]:
        return [_Part(stream_of(number), "0-0", "+") for number in range(STREAMS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        return _read(self._port, partition)


def _read(port: int, part: _Part) -> Iterator[pa.RecordBatch]:
    after = part.after
    with redis.Redis(port=port) as client:
        while page := client.xrange(part.stream, f"({after}", part.last, PAGE):
            yield _batch(part.stream, page)
            after = page[-1][0].decode()


def _batch(stream: str, page: list[tuple[bytes, dict[bytes, bytes]]]) -> pa.RecordBatch:
    """Return entries as rows of the same columns, of which those that Redis does not have are null."""
    count = len(page)
    times = [int(entry_id.partition(b"-")[0]) * 1000 for entry_id, _ in page]
    columns = {
        "topic": pa.array([stream] * count, pa.string()),
        "id": pa.array([entry_id for entry_id, _ in page], pa.binary()).cast(pa.string()),
        "key": pa.array([fields.get(b"key") for _, fields in page], pa.binary()),
        "value": pa.array([fields[b"value"] for _, fields in page], pa.binary()),
        "published_at": pa.array(times, pa.timestamp("us", tz="UTC")),
    }
    arrays = [
        columns[column.name] if column.name in columns else pa.nulls(count, column.type) for column in ARROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, port: int) -> None:
        self._port = port

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's names, here and below
        return {stream_of(number): "0-0" for number in range(STREAMS)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        with redis.Redis(port=self._port) as client:
            ends = {stream: client.xrevrange(stream, count=1) for stream in start}
        return {stream: end[0][0].decode() if end else start[stream] for stream, end in ends.items()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass  # the streams do not grow meanwhile

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        return [_Part(stream, start[stream], last) for stream, last in end.items() if last != start[stream]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        return _read(self._port, partition)
