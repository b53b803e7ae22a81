"""Export and import: lines become a store of which the same lines are exported again; any pairs can be exported.

Documented: InvalidLineError for lines. Damaged pairs are reported in `problems`, and left out.
"""

import asyncio
import re
from random import Random
from zlib import crc32

import orjson

from miniqueue.core.cursor.cursor import FRONT_START
from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.message import NEVER_RETURNED, Counts, Record
from miniqueue.core.message.partitioning import MAX_PARTITIONS
from miniqueue.errors import InvalidLineError
from miniqueue.storage.memory import MemoryStore
from miniqueue.tools.exporting.exporter import Exporter
from miniqueue.tools.importing.importer import Importer, import_all
from miniqueue.tools.lines.messages import StoredMessage, decode, encode
from tests.fakes import START_MS, ManualClock, broker_on
from tests.fuzz.engine import Target, attempt, chance_of
from tests.fuzz.pieces import number, payload, some, text

_TOPICS = (b"letters", b"orders.eu", "caf\u00e9".encode())
_TOKENS = (
    *(b'"text":"x"', b'"msg":"AA=="', b'"state":"back"', b'"id":"0-7"', b'"returns":{"nacks":1}', b'"serial":1'),
    *(b'"due_at":5', b'"behind":9', b"null", b"true", b"1.5", b"[]", b"{}", b'"topic":"t"', b"\\ud800", b',"x":1}'),
    *(b'"key":"k"', b'"headers":[["a","b"]]', b'"expires_at":5', b'{"base64":"AA=="}', b'"origin":{}'),
    *(b'"for":["a"]', b'"for":["default"]', b'{"topic":"letters","groups":["default","a"]}'),
)
_CRC_BYTES = 4
#: What says how many partitions there are: an id such as 1023-1 makes all there can be.
_PARTITIONS = re.compile(rb'"(?:id|partitions)"\s*:\s*"?(\d{1,9})')
#: An empty partition takes some 10 KiB, in a broker of the lines and in one of what it exported.
_PARTITION_BYTES = 2 * (10 << 10)


def _make(chance: Random) -> bytes:
    return b"".join(_line(chance, index) for index in range(chance.randint(1, 5)))


def _line(chance: Random, index: int) -> bytes:
    if chance.random() < 1 / 4:
        return orjson.dumps({"topic": chance.choice(_TOPICS).decode(), "text": text(chance)}) + b"\n"
    return _encoded(_message(chance, index))


def _message(chance: Random, index: int) -> StoredMessage:
    range_ = chance.choice(list(Range))
    order = number(chance, 63) << 64 | index + 1
    if range_ is Range.FRONT:
        order = FRONT_START - 1 - index
    is_waiting = range_ is Range.LOG
    return StoredMessage(
        topic=chance.choice(_TOPICS),
        range_=range_,
        order=0 if is_waiting else order,
        seq=chance.choice((index, index, 100 * index, number(chance, 63))),
        published_at_ms=number(chance, 63),
        counts=NEVER_RETURNED if is_waiting else Counts(*some(chance, (0, 1, 7), 5)),
        payload=payload(chance),
        attributes=_attributes(chance),
    )


def _attributes(chance: Random) -> bytes:
    if chance.random() < 1 / 2:
        return b""
    times = number(chance, 63), number(chance, 63)
    origin = Origin(b"letters", 0, number(chance, 63), *times, Counts(*some(chance, (0, 1, 7), 5)), payload(chance))
    headers = tuple((b"name", payload(chance)) for _ in range(chance.randint(0, 2)))
    found = Attributes(headers, payload(chance), number(chance, 63), payload(chance), chance.choice((None, origin)))
    return found.encode()


def _encoded(message: StoredMessage) -> bytes:
    record = Record(message.seq, message.published_at_ms, message.counts, message.payload, message.attributes)
    return encode(message.topic, message.range_, message.order, record, message.partition, message.groups)


def _check(content: bytes) -> None:
    lines = content.splitlines(keepends=True)
    _check_round_trip(_message(chance_of(content), 0))
    for line in lines:
        message = attempt(decode, line, documented=(InvalidLineError,))
        if isinstance(message, StoredMessage) and None not in (message.seq, message.published_at_ms):
            _check_round_trip(message)
    pairs = asyncio.run(_imported(lines))
    if pairs is not None:
        _check_export(pairs)
        _check_damaged(chance_of(content), pairs)


def _check_round_trip(message: StoredMessage) -> None:
    assert decode(_encoded(message)) == message


async def _imported(lines: list[bytes]) -> list[tuple[bytes, bytes]] | None:
    """Return the store that the lines make, after a broker has had it; None if one of them is wrong."""
    store = MemoryStore()
    importer = await Importer.begin(store, START_MS)
    try:
        message_count, topic_count = await import_all([importer], lines)
    except InvalidLineError:
        return None
    pairs = await _pairs(store)
    broker = broker_on(store, ManualClock())
    await broker.start()
    stats = broker.stats().values()
    assert len(stats) == topic_count
    assert sum(topic.ready + topic.delayed for topic in stats) == message_count
    await broker.stop()
    return pairs


async def _pairs(store: MemoryStore) -> list[tuple[bytes, bytes]]:
    return await store.scan(b"", b"\xff" * 40, max_items=1 << 30, max_bytes=1 << 60)


def _check_export(pairs: list[tuple[bytes, bytes]]) -> None:
    lines = list(Exporter().lines(iter(pairs)))
    again = asyncio.run(_imported(lines))
    assert again is not None
    assert sorted(Exporter().lines(iter(again))) == sorted(lines)  # topics are numbered as they come


def _check_damaged(chance: Random, pairs: list[tuple[bytes, bytes]]) -> None:
    """Any bytes in the place of keys and values make no more than problems."""
    index = chance.randrange(len(pairs)) if pairs else 0
    for key, value in pairs[index : index + 1]:
        position = chance.randint(0, len(value))
        body = (value[:position] + chance.randbytes(1) + value[position + 1 :])[:-_CRC_BYTES]
        sealed = body + crc32(body).to_bytes(_CRC_BYTES, "little")
        damaged = [*pairs[:index], (chance.choice((key, key[:-1])), sealed), *pairs[index + 1 :]]
        exporter = Exporter()
        lines = [orjson.loads(line) for line in exporter.lines(iter(damaged))]
        assert sum("settings" not in line and "groups" not in line for line in lines) == exporter.message_count


def _asked_bytes(content: bytes) -> int:
    """Return what the partitions may take that lines name."""
    return sum(min(int(last), MAX_PARTITIONS) for last in _PARTITIONS.findall(content)) * _PARTITION_BYTES


TARGET = Target("message_lines", _make, _check, tokens=_TOKENS, quick_inputs=200, asked_bytes=_asked_bytes)
