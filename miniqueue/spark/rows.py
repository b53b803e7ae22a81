"""Messages as rows of Spark, in Arrow, in both directions.

    topic       string        key      binary                                  published_at  timestamp
    partition   int           value    binary                                  priority      string
    offset      bigint        headers  array<struct<name:string,value:binary>>
    id          string

and, with the option withOrigin, `origin` of dead letters: struct<topic:string,id:string,published_at:timestamp,…>.

A row to write has `value`, string or binary, and may have the options of `publish`: `key`, `headers`, `priority`,
`delay_seconds`, `at`, `ttl_seconds`, `unique_key`. A write ignores the other columns of a read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyarrow import compute

from miniqueue.errors import ConfigError

#: A message in a reply of READ: its id, its payload, and its attributes by name.
ReadMessage: TypeAlias = tuple[bytes, bytes, dict[bytes, Any]]

SCHEMA: Final = (
    "topic string, partition int, offset bigint, id string, key binary, value binary, "
    "headers array<struct<name:string,value:binary>>, published_at timestamp, priority string"
)
ORIGIN: Final = ", origin struct<topic:string,id:string,published_at:timestamp,died_at:timestamp,reason:string>"
_HEADER: Final = pa.struct([("name", pa.string()), ("value", pa.binary())])
_HEADERS: Final = pa.list_(_HEADER)
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
_TIME: Final = pa.timestamp("us", tz="UTC")
_ORIGIN: Final = pa.struct(
    [
        ("topic", pa.string()),
        ("id", pa.string()),
        ("published_at", _TIME),
        ("died_at", _TIME),
        ("reason", pa.string()),
    ]
)
SCHEMA_WITH_ORIGIN: Final = ARROW_SCHEMA.append(pa.field("origin", _ORIGIN))
#: Columns that a write uses in addition to `value`: the options of `publish`.
WRITTEN: Final = ("key", "headers", "priority", "delay_seconds", "at", "ttl_seconds", "unique_key")
_TEXT: Final = ("string", "binary", "varchar", "char")
_NUMBER: Final = ("double", "float", "int", "bigint", "smallint", "tinyint", "decimal")
#: The types that these columns may have, by Spark's names; errors name the first one.
_TYPES: Final[Mapping[str, Sequence[str]]] = MappingProxyType(
    {
        "value": _TEXT,
        "key": _TEXT,
        "headers": ("array<struct<name:string,value:binary>>", "array<struct<name:string,value:string>>"),
        "priority": ("string",),
        "delay_seconds": _NUMBER,
        "at": ("timestamp",),
        "ttl_seconds": _NUMBER,
        "unique_key": _TEXT,
    }
)
#: Options that messages of one PUBEACH may have.
OF_BATCHES: Final = frozenset({"key", "headers", "ttl_seconds"})
#: Columns of a read that a write ignores.
_OF_READS: Final = frozenset({"topic", "partition", "offset", "id", "published_at", "origin"})
#: Values that a read returns for a message without the option.
USUAL: Final[Mapping[str, Any]] = MappingProxyType({"key": (b"", ""), "headers": ([],), "priority": ("normal",)})
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def batch_of(
    messages: Sequence[ReadMessage], topic: str, partition: str, *, with_origin: bool = False
) -> pa.RecordBatch:
    """Return messages of one partition as rows, directly from the reply: objects in between would cost most time."""
    number, _, priority = partition.partition(".")
    count = len(messages)
    ids, payloads, attributes = zip(*messages, strict=True)
    names = frozenset[bytes]().union(*attributes)  # an attribute that no message has need not be searched in each
    id_column = pa.array(ids, pa.binary()).cast(pa.string())
    columns = [
        pa.repeat(pa.scalar(topic), count),
        pa.repeat(pa.scalar(int(number), pa.int32()), count),
        compute.utf8_slice_codeunits(id_column, len(partition) + 1).cast(pa.int64()),
        id_column,
        _keys(attributes) if b"key" in names else pa.nulls(count, pa.binary()),
        pa.array(payloads, pa.binary()),
        _headers(attributes) if b"headers" in names else _no_headers(count),
        _times(map(itemgetter(b"published_at_ms"), attributes)),
        pa.repeat(pa.scalar(priority or "normal"), count),
    ]
    if with_origin:
        columns.append(pa.array([_origin(named.get(b"origin")) for named in attributes], _ORIGIN))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_ORIGIN if with_origin else ARROW_SCHEMA)


def _times(times_ms: Iterable[int]) -> pa.Array:
    return pa.array(list(times_ms), pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(_TIME)


def _origin(origin: dict[bytes, Any] | None) -> dict[str, Any] | None:
    if origin is None:
        return None
    times_us = {name: origin.get(b"%b_ms" % name.encode(), 0) * 1000 for name in ("published_at", "died_at")}
    texts = {name: origin.get(name.encode(), b"").decode("utf-8", "replace") for name in ("topic", "id", "reason")}
    return texts | times_us


def offset_of(message: ReadMessage) -> int:
    """Return the offset of a message in its partition."""
    return int(message[0].rpartition(b"-")[2])


def check_columns(types: Mapping[str, str]) -> None:
    """Raise ConfigError unless rows with these columns can be written; `types` are Spark's names, by column."""
    if "value" not in types:
        raise ConfigError(['the column value is missing; to_json(struct("*")) makes one of all columns'])
    if unknown := sorted(types.keys() - {"value", *WRITTEN} - _OF_READS):
        raise ConfigError([f"unknown columns: {', '.join(unknown)}; allowed are value, {', '.join(WRITTEN)}"])
    wrong = [name for name, kind in types.items() if name in _TYPES and not _fits(kind, _TYPES[name])]
    if wrong:
        raise ConfigError(
            [f"invalid type of the column {name}: {types[name]}; must be {_TYPES[name][0]}" for name in wrong]
        )


def _fits(kind: str, wanted: Sequence[str]) -> bool:
    """Whether a type is among the wanted ones, with any length and collation."""
    return kind == "void" or kind.partition("(")[0].partition(" ")[0] in wanted


class Row(NamedTuple):
    """A row to publish.

    Attributes:
      payload: the payload of the message.
      options: the options of `publish`.
      size_bytes: approximate size of the payload and the options.
      word_count: number of words of the message in PUBEACH.
    """

    payload: bytes
    options: Mapping[str, Any]
    size_bytes: int
    word_count: int


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch."""
    names = [name for name in WRITTEN if name in batch.schema.names]
    payloads = [payload or b"" for payload in batch.column("value").cast(pa.binary()).to_pylist()]
    if not names:
        yield from (Row(payload, _NOTHING, len(payload), 1) for payload in payloads)
        return
    columns = [batch.column(name).to_pylist() for name in names]
    for index, payload in enumerate(payloads):
        values = {name: column[index] for name, column in zip(names, columns, strict=True)}
        yield _row(payload, {name: value for name, value in values.items() if not _is_usual(name, value)})


def _is_usual(name: str, value: object) -> bool:
    return value is None or value in USUAL.get(name, ())


def _row(payload: bytes, options: dict[str, Any]) -> Row:
    headers = [(header["name"] or "", header["value"] or b"") for header in options.get("headers", ()) if header]
    if "headers" in options:
        options["headers"] = headers
    size_bytes = len(payload) + len(options.get("key", b"")) + sum(len(name) + len(value) for name, value in headers)
    return Row(payload, options, size_bytes, 2 + 2 * len(options) + 3 * len(headers))


def _keys(attributes: Sequence[dict[bytes, Any]]) -> pa.Array:
    return pa.array([named.get(b"key") for named in attributes], pa.binary())


def _headers(attributes: Sequence[dict[bytes, Any]]) -> pa.Array:
    structs = [[{"name": name, "value": value} for name, value in named.get(b"headers", ())] for named in attributes]
    return pa.array(structs, _HEADERS)


def _no_headers(count: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count + 1), pa.array([], _HEADER))
