"""Keys and values of a store: what they say is written back as the same, and nothing else is raised.

Documented: CorruptionError for keys; CorruptionError and FormatVersionError for values.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from random import Random
from typing import NamedTuple
from zlib import crc32

from miniqueue.core.cursor.cursor import CursorState
from miniqueue.core.cursor.lease import Range
from miniqueue.core.log.delayed import Delayed, DelaysState
from miniqueue.core.log.transfer import KINDS, Received, Transfer
from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.message import Chunk, Counts, Record
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Missed, Schedule
from miniqueue.core.settings.settings import TopicSettings
from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.format import delays, keys, log_ends, schedules, tasks, transfers, values
from miniqueue.storage.format.keys import Parts, Space
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import number, payload, some

_FIRST_SEQ = 41
_CRC_BYTES = 4
_fields_of_chunk = attrgetter("first_seq", "committed_at_ms", "payloads", "log_bytes", "attributes")


class _Kind(NamedTuple):
    """A kind of values: what encodes and decodes them, and what makes one to be encoded."""

    encode: Callable[..., bytes]
    decode: Callable[[bytes], object]
    make: Callable[[Random], object]


def _chunk(chance: Random) -> Chunk:
    payloads = [payload(chance) for _ in range(chance.randint(0, 5))]
    extras = chance.choice((None, [payload(chance) for _ in payloads]))
    return Chunk(_FIRST_SEQ, number(chance, 64), payloads, number(chance, 64), extras)


def _attributes(chance: Random) -> Attributes:
    headers = tuple((chance.choice((b"a", b"trace", b"~" * 255)), payload(chance)) for _ in range(chance.randint(0, 2)))
    counts = Counts(*(number(chance, 32) for _ in Counts._fields))
    times = number(chance, 64), number(chance, 64)
    origin = Origin(b"letters", number(chance, 32), number(chance, 64), *times, counts, payload(chance))
    return Attributes(headers, payload(chance), number(chance, 64), payload(chance), chance.choice((None, origin)))


def _record(chance: Random) -> Record:
    counts = Counts(*(number(chance, 32) for _ in Counts._fields))
    failure = chance.choice((b"", payload(chance)))
    return Record(number(chance, 64), number(chance, 64), counts, payload(chance), payload(chance), failure)


def _schedule(chance: Random) -> Schedule:
    rule = chance.choice(({"cron": "0 9 * * *", "zone": "Europe/Berlin"}, {"every_ms": 1 + number(chance, 62)}))
    options = PublishOptions(
        tuple((b"h%d" % n, payload(chance)) for n in range(chance.randint(0, 3))),
        payload(chance),
        chance.choice((None, 0.5, 60.0)),
        priority=chance.choice(list(Priority)),
    )
    missed, until_ms = chance.choice(list(Missed)), chance.choice((None, number(chance, 62)))
    return Schedule(b"letters", payload(chance), **rule, missed=missed, options=options, until_ms=until_ms)


def _transfer(chance: Random) -> Transfer:
    kind, at_ms, seq = chance.choice([*KINDS.values()]), number(chance, 62), number(chance, 62)
    contents = payload(chance), payload(chance)
    return Transfer(b"there", kind, chance.random() < 0.5, "ada", at_ms, 0, b"0 here.dlq", seq, *contents)


def _received(chance: Random) -> Received:
    last_number = number(chance, 64)
    return Received(last_number, frozenset(n for n in some(chance, range(9), 3) if n < last_number))


_KINDS = (
    _Kind(values.encode_number, values.decode_number, lambda chance: number(chance, 64)),
    _Kind(
        lambda entry: values.encode_topic(*entry),
        values.decode_topic,
        lambda chance: (number(chance, 64), number(chance, 64)),
    ),
    _Kind(
        values.encode_cursor,
        values.decode_cursor,
        lambda chance: CursorState(*(number(chance, 64) for _ in CursorState._fields)),
    ),
    _Kind(
        values.encode_bitmap,
        values.decode_bitmap,
        lambda chance: number(chance, 128) << chance.choice((0, 0, 700)),
    ),
    _Kind(values.encode_erasure, values.decode_erasure, lambda chance: b"orders-%d" % number(chance, 64)),
    _Kind(
        values.encode_settings,
        values.decode_settings,
        lambda chance: TopicSettings(
            lease_seconds=chance.choice((None, 1.0, 0.25)),
            max_deliveries=chance.randint(0, 1000),
            dead_letter_topic=chance.choice((None, "lost")),
            retry_delays=tuple(some(chance, (0.0, 1.5), 3)),
        ),
    ),
    _Kind(values.encode_chunk, partial(values.decode_chunk, _FIRST_SEQ), _chunk),
    _Kind(values.encode_record, values.decode_record, _record),
    _Kind(Attributes.encode, attributes.decode, _attributes),
    _Kind(
        delays.encode_delays,
        delays.decode_delays,
        lambda chance: DelaysState(*(number(chance, 64) for _ in DelaysState._fields)),
    ),
    _Kind(
        delays.encode_delayed,
        delays.decode_delayed,
        lambda chance: Delayed(number(chance, 64), chance.randint(0, 2), payload(chance), payload(chance)),
    ),
    _Kind(
        lambda start: log_ends.encode_start(*start),
        log_ends.decode_start,
        lambda chance: (number(chance, 64), chance.choice((None, number(chance, 63)))),
    ),
    _Kind(
        log_ends.encode_growth,
        log_ends.decode_growth,
        lambda chance: {n: number(chance, 64) for n in range(chance.randint(1, 4))},
    ),
    _Kind(tasks.encode_task, tasks.decode_task, lambda chance: {"number": number(chance, 63), "name": None}),
    _Kind(transfers.encode_transfer, transfers.decode_transfer, _transfer),
    _Kind(transfers.encode_received, transfers.decode_received, _received),
    _Kind(schedules.encode_schedule, schedules.decode_schedule, _schedule),
)
#: All there are, also those of which no kind is made.
_DECODERS = tuple(
    partial(decode, _FIRST_SEQ) if decode in (values.decode_chunk, values.decode_extent) else decode
    for module in (values, delays, log_ends, log_ends, schedules, tasks, transfers)
    for name, decode in vars(module).items()
    if name.startswith("decode_")
)
#: What makes the key of each space, of those whose key has parts.
_KEYS: dict[Space, Callable[[Parts], bytes]] = {
    Space.TASK: lambda parts: tasks.task(parts.order),
    Space.OUTBOX: lambda parts: transfers.outbox(parts.order),
    Space.RECEIVED: lambda parts: transfers.received(parts.order & (1 << 32) - 1),
    Space.PURGE: lambda parts: keys.purge(parts.topic_id),
    Space.CURSOR: lambda parts: keys.cursor(parts.topic_id, parts.partition, parts.group),
    Space.BITMAP: lambda parts: keys.bitmap(parts.topic_id, parts.partition, parts.group, parts.order),
    Space.GAP: lambda parts: keys.gap(parts.topic_id, parts.partition, parts.group, parts.order),
    Space.SETTINGS: lambda parts: keys.settings(parts.topic_id),
    Space.DELAYS: lambda parts: delays.delays(parts.topic_id, parts.partition),
    Space.START: lambda parts: log_ends.start(parts.topic_id, parts.partition),
    Space.GROWTH: lambda parts: log_ends.growth(parts.topic_id, parts.partition),
    Space.CHUNK: lambda parts: keys.chunk(parts.topic_id, parts.partition, parts.order),
    Space.DELAYED: lambda parts: delays.delayed(
        parts.topic_id, parts.partition, parts.order >> 64, parts.order & (1 << 64) - 1
    ),
    Space.RECORD: lambda parts: keys.record(
        parts.topic_id, parts.partition, parts.group, Range(parts.range_), parts.order
    ),
}


def _make(chance: Random) -> bytes:
    if chance.random() < 1 / 3:
        return _key(chance)
    kind = chance.choice(_KINDS)
    return kind.encode(kind.make(chance))


def _key(chance: Random) -> bytes:
    space = chance.choice(list(Space))
    if space not in _KEYS:
        return bytes([space]) + chance.choice((b"", payload(chance)))
    bits = 128 if space in (Space.RECORD, Space.DELAYED) else 64
    parts = Parts(space, number(chance, 64), number(chance, 32), number(chance, 32), 0, number(chance, bits))
    return _KEYS[space](parts._replace(range_=chance.choice(list(Range))))


def _mend(value: bytes) -> bytes:
    """Put the checksum right."""
    body = value[:-_CRC_BYTES]
    return body + crc32(body).to_bytes(_CRC_BYTES, "little")


def _check(content: bytes) -> None:
    parts = attempt(keys.parse, content, documented=(CorruptionError,))
    if isinstance(parts, Parts):
        _check_key(content, parts)
    chance = chance_of(content)
    for decode in _DECODERS:
        attempt(decode, content, documented=(CorruptionError, FormatVersionError))
    for kind in _KINDS:
        _check_round_trip(kind, kind.make(chance))
        found = attempt(kind.decode, content, documented=(CorruptionError, FormatVersionError))
        if not isinstance(found, Exception) and not (isinstance(found, tuple) and None in found):
            _check_round_trip(kind, found)  # what an old form does not tell is None, and written no more


def _check_key(key: bytes, parts: Parts) -> None:
    """What was parsed makes the same key, unless its reserved byte or its range is never written."""
    if parts.space is Space.TOPIC:
        assert keys.topic(keys.topic_name(key)) == key
    elif parts.space is Space.RECORD and parts.range_ not in list(Range):
        return
    elif parts.space in _KEYS:
        same = _KEYS[parts.space](parts)
        assert same == key or keys.parse(same).reserved != parts.reserved


def _check_round_trip(kind: _Kind, value: object) -> None:
    assert _said(kind.decode(kind.encode(value))) == _said(value)


def _said(value: object) -> object:
    return _fields_of_chunk(value) if isinstance(value, Chunk) else value


TARGET = Target("stored_values", _make, _check, mend=_mend, quick_inputs=2000)
