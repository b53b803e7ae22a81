"""Messages as rows of Spark, in Arrow, both ways.

    topic       string        key      binary                                  published_at  timestamp
    partition   int           value    binary                                  priority      string
    offset      bigint        headers  array<struct<name:string,value:binary>>
    id          string

A row that is written has `value`, string or binary, and may have what `publish` takes: `key`, `headers`, `priority`,
`delay_seconds`, `at`, `ttl_seconds`, `unique_key`. Columns that a read has and a write does not use are left alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from miniqueue.client import Message
from miniqueue.client.log import offset_of
from miniqueue.errors import ConfigError

SCHEMA: Final = (
    "topic string, partition int, offset bigint, id string, key binary, value binary, "
    "headers array<struct<name:string,value:binary>>, published_at timestamp, priority string"
)
_HEADERS: Final = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
ARROW_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("id", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("published_at", pa.timestamp("us", tz="UTC")),
        ("priority", pa.string()),
    ]
)
#: Columns that a write uses: those of `publish`, but for the payload.
WRITTEN: Final = ("key", "headers", "priority", "delay_seconds", "at", "ttl_seconds", "unique_key")
#: Columns that come from a read, of which a write makes its own.
_OF_READS: Final = frozenset({"topic", "partition", "offset", "id", "published_at"})


def batch_of(messages: Sequence[Message], topic: str, partition: str) -> pa.RecordBatch:
    """Return messages of one partition as rows."""
    number, _, priority = partition.partition(".")
    count = len(messages)
    columns = [
        pa.array([topic] * count, pa.string()),
        pa.array([int(number)] * count, pa.int32()),
        pa.array([offset_of(message) for message in messages], pa.int64()),
        pa.array([message.id for message in messages], pa.string()),
        pa.array([message.key or None for message in messages], pa.binary()),
        pa.array([message.payload for message in messages], pa.binary()),
        pa.array([_header_structs(message) for message in messages], _HEADERS),
        pa.array([message.published_at_ms * 1000 for message in messages], pa.timestamp("us", tz="UTC")),
        pa.array([priority or "normal"] * count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def check_columns(names: Sequence[str]) -> None:
    """Raise ConfigError unless rows with these columns can be written."""
    if "value" not in names:
        raise ConfigError(['there is no column value; to_json(struct("*")) makes one of all columns'])
    if unknown := sorted(set(names) - {"value", *WRITTEN} - _OF_READS):
        raise ConfigError([f"there is no use for the columns {', '.join(unknown)}; value may be followed by {WRITTEN}"])


class Row(NamedTuple):
    """What is published of a row.

    Attributes:
      payload: the message.
      given: what `publish` takes besides; None where the frame has values alone.
    """

    payload: bytes
    given: dict[str, Any] | None = None


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield what is published of each row."""
    names = [name for name in WRITTEN if name in batch.schema.names]
    payloads = [payload or b"" for payload in batch.column("value").cast(pa.binary()).to_pylist()]
    if not names:
        yield from map(Row, payloads)
        return
    columns = [batch.column(name).to_pylist() for name in names]
    for index, payload in enumerate(payloads):
        given = {name: column[index] for name, column in zip(names, columns, strict=True) if column[index] is not None}
        if "headers" in given:
            given["headers"] = [(header["name"], header["value"]) for header in given["headers"]]
        yield Row(payload, given)


def _header_structs(message: Message) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in message.headers]
