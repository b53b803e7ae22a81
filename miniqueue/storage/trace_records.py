"""Values of traces: what a commit did to messages of a block, column by column. The grammar stands in `records`.

Texts, which are few, stand behind the columns, each once.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from miniqueue.core.tracing import BEGINNINGS, Event, Gathered, Kind
from miniqueue.storage.sealing import malformed, seal, unpack, unseal
from miniqueue.storage.trace_keys import BLOCK_BITS, BLOCK_MESSAGES

#: Of a text; what is longer is cut.
MAX_TEXT_BYTES = 1024
#: Of one value.
MAX_EVENTS = 4096

_state = struct.Struct("<QQ")
_head = struct.Struct("<QIH")
_KINDS = frozenset(Kind)
#: Kind, start in its block, count, time before the commit, group, who, number.
_COLUMNS = "BHHIHHQ"
_ROW_BYTES = struct.calcsize("<" + _COLUMNS)


class TraceState(NamedTuple):
    """How much is stored of the traces of a topic, and the serial number of its next one."""

    size_bytes: int = 0
    serial: int = 0


class Trace(NamedTuple):
    """What a commit did to messages of a block."""

    committed_at_ms: int
    events: list[Event]


def encode_traces(state: TraceState) -> bytes:
    """Encode how much is stored of a topic."""
    return seal(_state.pack(*state))


def decode_traces(value: bytes) -> TraceState:
    """Parse `encode_traces`; raises CorruptionError or FormatVersionError, as all parsers here."""
    return TraceState(*unpack(_state, value, "traces"))


def encode_gathered(gathered: Gathered, committed_at_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield the block and the value of each part of what was gathered."""
    first = min(gathered.starts) >> BLOCK_BITS
    last = max(map(sum, zip(gathered.starts, gathered.counts, strict=True))) - 1 >> BLOCK_BITS
    if first == last and len(gathered.kinds) <= MAX_EVENTS:  # as nearly always
        yield first, _encode(first, committed_at_ms, gathered)
        return
    parts: dict[int, list[Gathered]] = {}
    for row in zip(*gathered.columns(), strict=True):
        for block, start_seq, count in _blocks_of(row[1], row[2]):
            of_block = parts.setdefault(block, [Gathered()])
            if len(of_block[-1].kinds) == MAX_EVENTS:
                of_block.append(Gathered())
            number = row[6] and row[6] + start_seq - row[1]
            of_block[-1].append((row[0], start_seq, count, *row[3:6], number))
    yield from ((block, _encode(block, committed_at_ms, part)) for block, found in parts.items() for part in found)


def decode_trace(block: int, value: bytes) -> Trace:
    """Parse one of them."""
    body = unseal(value, "trace")
    committed_at_ms, event_count, text_count = _header(body)
    lengths_at = _head.size + event_count * _ROW_BYTES
    texts_at = lengths_at + 2 * text_count
    if texts_at > len(body):
        raise malformed("trace")
    kinds, starts, counts, ages, groups, whos, numbers = _columns(body, event_count)
    stops = list(accumulate(_parsed("H", body[lengths_at:texts_at]), initial=texts_at))
    texts = [body[start:stop] for start, stop in pairwise(stops)]
    if stops[-1] != len(body) or not set(kinds) <= _KINDS or max([*groups, *whos]) >= len(texts):
        raise malformed("trace")
    base_seq = block << BLOCK_BITS
    rows = zip(kinds, starts, counts, ages, groups, whos, numbers, strict=True)
    return Trace(
        committed_at_ms,
        [
            Event(Kind(kind), base_seq + start, count, committed_at_ms - age, texts[group], texts[who], number)
            for kind, start, count, age, group, who, number in rows
        ],
    )


def decode_age(value: bytes) -> tuple[int, bool]:
    """Return when a trace was committed, and whether messages begin in it."""
    body = unseal(value, "trace")
    committed_at_ms, event_count, _ = _header(body)
    kinds = body[_head.size : _head.size + event_count]
    return committed_at_ms, any(kind in kinds for kind in BEGINNINGS)


def _encode(block: int, committed_at_ms: int, gathered: Gathered) -> bytes:
    """Encode what is all of one block."""
    base_seq = block << BLOCK_BITS
    texts = {text: number for number, text in enumerate(dict.fromkeys([*gathered.groups, *gathered.whos]))}
    columns: Sequence[Iterable[int]] = (
        gathered.kinds,
        [seq - base_seq for seq in gathered.starts],
        gathered.counts,
        [max(0, min(committed_at_ms - at_ms, 0xFFFFFFFF)) for at_ms in gathered.at_ms],
        [texts[group] for group in gathered.groups],
        [texts[who] for who in gathered.whos],
        gathered.numbers,
    )
    spelled = [bytes(text)[:MAX_TEXT_BYTES] for text in texts]
    return seal(
        _head.pack(committed_at_ms, len(gathered.kinds), len(spelled)),
        *(_packed(code, column) for code, column in zip(_COLUMNS, columns, strict=True)),
        _packed("H", map(len, spelled)),
        *spelled,
    )


def _blocks_of(start_seq: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the blocks that a run is in, each with the part of the run."""
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
    """Encode a column; an array has the machine's own order of bytes, and is several times faster than `struct`."""
    packed = array(code, column)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _parsed(code: str, packed: bytes) -> "array[int]":
    column: array[int] = array(code, packed)
    if sys.byteorder == "big":
        column.byteswap()
    return column
