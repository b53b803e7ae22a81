"""Values of traces: the events of a commit in a block (TRACE), and the size of the traces of a topic (TRACES).

A trace is encoded column by column. Texts, of which there are few, follow the columns, each text once. `values`
contains the form, `trace_keys` the keys.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, compress, pairwise
from operator import itemgetter
from typing import NamedTuple, SupportsBytes

from miniqueue.core.cursor.recording import BEGINNINGS, Event, Kind, Row
from miniqueue.storage.format.trace_keys import BLOCK_BITS, BLOCK_MESSAGES
from miniqueue.storage.format.values import malformed, seal, unpack, unseal

#: Maximum length of a text; a longer text is truncated.
MAX_TEXT_BYTES = 1024
#: Maximum number of events in one value.
MAX_EVENTS = 4096
#: Up to this number of rows, one call of `struct` is faster than an array for each column.
FEW_ROWS = 16

_state = struct.Struct("<QQ")
_head = struct.Struct("<QIH")
_KINDS = frozenset(Kind)
#: Kind, first sequence number, count of messages, time, group, actor, number.
_COLUMNS = "BQHQHHQ"
_row = struct.Struct("<" + _COLUMNS)
_start, _count = itemgetter(1), itemgetter(2)


class TraceState(NamedTuple):
    """Approximate size of the stored traces of a topic, and the first free serial number.

    It is written only at intervals: written with each commit, it would cost as much as the trace of a large commit.
    """

    size_bytes: int = 0
    serial: int = 0


class Trace(NamedTuple):
    """The events of a commit, of messages of a block."""

    committed_at_ms: int
    events: list[Event]


def encode_traces(state: TraceState) -> bytes:
    """Encode the size of a topic's traces."""
    return seal(_state.pack(*state))


def decode_traces(value: bytes) -> TraceState:
    """Parse `encode_traces`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    return TraceState(*unpack(_state, value, "traces"))


def encode_rows(rows: Sequence[Row], committed_at_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield the block and the value of each part of the events of one partition, in order."""
    first = min(map(_start, rows)) >> BLOCK_BITS
    last = (max(map(_start, rows)) + max(map(_count, rows)) - 1) >> BLOCK_BITS
    if first == last and len(rows) <= MAX_EVENTS:  # the common case, without splitting rows
        yield first, _encode(rows, committed_at_ms)
        return
    parts: dict[int, list[Row]] = {}
    for row in rows:
        kind, start_seq, count, at_ms, group, actor, number = row
        if (block := start_seq >> BLOCK_BITS) == (start_seq + count - 1) >> BLOCK_BITS:
            parts.setdefault(block, []).append(row)
            continue
        for block, part_seq, part_count in _blocks_of(start_seq, count):
            part_number = number and number + part_seq - start_seq
            parts.setdefault(block, []).append((kind, part_seq, part_count, at_ms, group, actor, part_number))
    for block, part in parts.items():
        for start in range(0, len(part), MAX_EVENTS):
            yield block, _encode(part[start : start + MAX_EVENTS], committed_at_ms)


def decode_trace(value: bytes, of_seq: int | None = None) -> Trace:
    """Parse a trace; `of_seq` restricts it to the events of one message, which takes a quarter of the time."""
    body = unseal(value, "trace")
    committed_at_ms, event_count, text_count = _header(body)
    lengths_at = _head.size + event_count * _row.size
    texts_at = lengths_at + 2 * text_count
    if texts_at > len(body):
        raise malformed("trace")
    columns = _columns(body, event_count)
    stops = list(accumulate(_parsed("H", body[lengths_at:texts_at]), initial=texts_at))
    texts = [body[start:stop] for start, stop in pairwise(stops)]
    if stops[-1] != len(body) or not set(columns[0]) <= _KINDS or max(*columns[4], *columns[5]) >= len(texts):
        raise malformed("trace")
    rows: Iterator[tuple[int, ...]] = zip(*columns, strict=True)
    if of_seq is not None:
        runs = zip(columns[1], columns[2], strict=True)
        rows = compress(rows, [start_seq <= of_seq < start_seq + count for start_seq, count in runs])
    events = [
        Event(Kind(kind), start_seq, count, at_ms, texts[group], texts[actor], number)
        for kind, start_seq, count, at_ms, group, actor, number in rows
    ]
    return Trace(committed_at_ms, events)


def decode_age(value: bytes) -> tuple[int, bool]:
    """Return when a trace was committed, and whether it contains the first event of a message."""
    body = unseal(value, "trace")
    committed_at_ms, event_count, _ = _header(body)
    kinds = body[_head.size : _head.size + event_count]
    return committed_at_ms, any(kind in kinds for kind in BEGINNINGS)


def _encode(rows: Sequence[Row], committed_at_ms: int) -> bytes:
    """Encode rows that all belong to one block."""
    kinds, starts, counts, times, groups, actors, numbers = zip(*rows, strict=True)
    texts: dict[SupportsBytes, int] = dict.fromkeys(groups + actors, 0)
    texts = dict(zip(texts, range(len(texts)), strict=True))
    number_of = texts.__getitem__
    columns = kinds, starts, counts, times, map(number_of, groups), map(number_of, actors), numbers
    encoded = [*map(bytes, texts)]
    lengths = [*map(len, encoded)]
    if max(lengths) > MAX_TEXT_BYTES:
        encoded = [text[:MAX_TEXT_BYTES] for text in encoded]
        lengths = [*map(len, encoded)]
    row_count, text_count = len(rows), len(lengths)
    if row_count <= FEW_ROWS:
        layout = _layout_of(row_count, text_count)
        return seal(
            layout.pack(committed_at_ms, row_count, text_count, *chain.from_iterable(columns), *lengths), *encoded
        )
    head = _head.pack(committed_at_ms, row_count, text_count)
    return seal(head, *map(_packed, _COLUMNS, columns), _packed("H", lengths), *encoded)


@cache
def _layout_of(row_count: int, text_count: int) -> struct.Struct:
    return struct.Struct("".join((_head.format, *(f"{row_count}{code}" for code in _COLUMNS), f"{text_count}H")))


def _blocks_of(start_seq: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks of a run of messages, each with its part of the run."""
    stop_seq = start_seq + count
    while start_seq < stop_seq:
        block = start_seq >> BLOCK_BITS
        part_stop = min(stop_seq, (block << BLOCK_BITS) + BLOCK_MESSAGES)
        yield block, start_seq, part_stop - start_seq
        start_seq = part_stop


def _header(body: bytes) -> tuple[int, int, int]:
    if len(body) < _head.size:
        raise malformed("trace")
    committed_at_ms, event_count, text_count = _head.unpack_from(body)
    if not event_count or not text_count:
        raise malformed("trace")
    return committed_at_ms, event_count, text_count


def _columns(body: bytes, event_count: int) -> list["array[int]"]:
    stops = accumulate((event_count * struct.calcsize("<" + code) for code in _COLUMNS), initial=_head.size)
    return [_parsed(code, body[start:stop]) for code, (start, stop) in zip(_COLUMNS, pairwise(stops), strict=True)]


def _packed(code: str, column: Iterable[int]) -> bytes:
    """Encode a column; an array uses the machine's byte order, and is several times faster than `struct`."""
    packed = array(code, column)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _parsed(code: str, packed: bytes) -> "array[int]":
    column: array[int] = array(code, packed)
    if sys.byteorder == "big":
        column.byteswap()
    return column
