"""Grammar, layouts, and parsing of all keys in the store.

    key         = space rest                     one byte, then what follows; integers are big-endian
    NEXT_TOPIC  = 0x02                           value: the next topic id
    TOPIC       = 0x03 name                      value: topic id, creation time
    PURGE       = 0x04 topic:8                   value: empty; a deleted topic with keys; or its name
    TICK        = 0x05 name                      value: when the schedule of this name next publishes
    TASK        = 0x06 number:8                  value: an act on many messages, and how far it has come
    OUTBOX      = 0x07 number:8                  value: a message on its way to a topic of another shard
    SENT        = 0x08                           value: the highest number of such a message that was used
    RECEIVED    = 0x09 shard:4                   value: which of them have arrived from another shard
    HEAD        = 0x10 topic:8 partition:4                                value: next sequence number
    CURSOR      = 0x11 topic:8 partition:4 group:4                        value: CursorState
    BITMAP      = 0x12 topic:8 partition:4 group:4 reserved:1 first_seq:8 value: settled bits of a chunk
    GAP         = 0x13 topic:8 partition:4 group:4 reserved:1 first_seq:8 value: the sequence number after the gap
    SETTINGS    = 0x14 topic:8                                            value: settings that are not at their default
    DELAYS      = 0x15 topic:8 partition:4                                value: statistics of the delayed messages
    DEDUP       = 0x16 topic:8 committed_at_ms:8 serial:8                 value: the dedup ids of a commit
    GROUP       = 0x17 topic:8 name                                       value: group id, creation time
    START       = 0x18 topic:8 partition:4                                value: where the retained log begins
    GROUP_PURGE = 0x19 topic:8 0:4 group:4                                value: empty; a deleted group with keys
    TRACES      = 0x1A topic:8                                            value: size of the traces of the topic
    GROWTH      = 0x1B topic:8 partition_count:4                          value: ends of logs when partitions were added
    CHUNK       = 0x20 topic:8 partition:4 reserved:1 first_seq:8         value: messages
    RECORD      = 0x21 topic:8 partition:4 group:4 range:1 order:16       value: a returned message
    DELAYED     = 0x22 topic:8 partition:4 due_at_ms:8 serial:8           value: a message that is not yet due
    TRACE       = 0x24 topic:8 partition:4 block:8 serial:8               value: events of a commit in a block
    UNIQUE      = 0x23 topic:8 size:2 key id                              value: expiry time of the message with the key
    SCHEDULE    = 0x30 name                      value: settings and payload of a schedule

A name is always the whole rest of its key, and every other part has a fixed width, so no name can collide with
the range of another key or be a prefix of it. A unique key states its size, so the id after it cannot collide either.
`GROUP_PURGE` has zeros instead of a partition. Topic ids are never reused, so a broker can remove the keys of a
deleted topic in the background. `reserved` is always 1: a priority is part of the
partition number (`core.message.lanes`). HEAD is written with CURSOR; all chunks that begin at that number or later
exist, and the last of them states the next number. A store that was created in format 1 can have a key 0x01, COMMIT,
with the number of the last commit; it is never read.

`delays`, `dedup`, `groups`, `log_ends`, `schedules`, `tasks`, `trace_keys`, and `transfers` make the keys of those
spaces, with the layouts that are defined here.

To change the grammar: raise FORMAT_VERSION in `leveldb/marker.py`, keep the old functions for reading, add the step
that rewrites an old store, and add a golden file of the old format to the tests (docs/storage-format.md).
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import repeat
from typing import Final, NamedTuple

from miniqueue.core.cursor.lease import Range
from miniqueue.errors import CorruptionError


class Space(IntEnum):
    """The first byte of a key."""

    COMMIT = 0x01
    NEXT_TOPIC = 0x02
    TOPIC = 0x03
    PURGE = 0x04
    TICK = 0x05
    TASK = 0x06
    OUTBOX = 0x07
    SENT = 0x08
    RECEIVED = 0x09
    HEAD = 0x10
    CURSOR = 0x11
    BITMAP = 0x12
    GAP = 0x13
    SETTINGS = 0x14
    DELAYS = 0x15
    DEDUP = 0x16
    GROUP = 0x17
    START = 0x18
    GROUP_PURGE = 0x19
    TRACES = 0x1A
    GROWTH = 0x1B
    CHUNK = 0x20
    RECORD = 0x21
    DELAYED = 0x22
    UNIQUE = 0x23
    TRACE = 0x24
    SCHEDULE = 0x30


class Parts(NamedTuple):
    """The parts of a parsed key; 0 if its space has no such part.

    Attributes:
      space: the first byte.
      topic_id, partition, group: numbers of these; of a GROWTH, `partition` is the number of partitions.
      reserved: `RESERVED` in the keys that the broker writes.
      order: the number of a task or a transfer; the shard of what was received; the first sequence number of a bitmap,
        gap, or chunk; the order of a record; the due time and serial of a delayed message; the commit time and serial
        of dedup ids; the block and serial of a trace.
      range_: the range of a record; an unknown number is not refused.
    """

    space: Space
    topic_id: int = 0
    partition: int = 0
    group: int = 0
    reserved: int = 0
    order: int = 0
    range_: int = 0


NEXT_TOPIC: Final = bytes([Space.NEXT_TOPIC])

#: The value of the part `reserved` in every key that has this part.
RESERVED: Final = 1

_TOPIC, _PURGE = bytes([Space.TOPIC]), bytes([Space.PURGE])
# Plain numbers: these keys are made for every commit, and each attribute of the enum would be one look-up more.
_HEAD, _CURSOR, _BITMAP, _GAP = Space.HEAD.value, Space.CURSOR.value, Space.BITMAP.value, Space.GAP.value
_SETTINGS, _CHUNK, _RECORD = Space.SETTINGS.value, Space.CHUNK.value, Space.RECORD.value
#: The largest due time, sequence number, or serial.
MAX_UINT64: Final = (1 << 64) - 1
_MAX_128 = (1 << 128) - 1

#: space topic
TOPIC_LAYOUT: Final = struct.Struct(">BQ")
#: space topic partition, or space topic partition_count
PARTITION_LAYOUT: Final = struct.Struct(">BQI")
#: space number; also of a transfer
TASK_LAYOUT: Final = struct.Struct(">BQ")
#: space shard
SHARD_LAYOUT: Final = struct.Struct(">BI")
#: space topic partition group
GROUP_LAYOUT: Final = struct.Struct(">BQII")
#: space topic time serial
COMMIT_LAYOUT: Final = struct.Struct(">BQQQ")
#: space topic partition time serial, or space topic partition block serial
SERIAL_LAYOUT: Final = struct.Struct(">BQIQQ")
#: space topic size, before a unique key and the id of its message
UNIQUE_LAYOUT: Final = struct.Struct(">BQH")
_bitmap = struct.Struct(">BQIIBQ")
_chunk = struct.Struct(">BQIBQ")
_record = struct.Struct(">BQIIBQQ")

#: A key range, as (start, stop) with start <= key < stop.
KeyRange = tuple[bytes, bytes]


def state() -> KeyRange:
    """Range of all keys except those of messages; a startup reads it."""
    return bytes([Space.COMMIT]), bytes([_CHUNK])


def state_of_all() -> KeyRange:
    """Range of the keys that belong to no topic, except schedules, and of the names of topics."""
    return bytes([Space.COMMIT]), bytes([_HEAD])


#: The spaces of the keys that belong to a topic, except those of messages; a startup reads them.
STATE_OF_TOPICS: Final = tuple(space for space in Space if Space.HEAD <= space < Space.CHUNK)


def space_range(space: Space) -> KeyRange:
    """Range of all keys of a space."""
    return bytes([space]), bytes([space + 1])


def topic_range(space: Space, topic_id: int) -> KeyRange:
    """Range of all keys of a topic in a space."""
    return TOPIC_LAYOUT.pack(space, topic_id), TOPIC_LAYOUT.pack(space, topic_id + 1)


def transfers() -> KeyRange:
    """Range of the messages on their way to other shards, and of what has arrived from them."""
    return bytes([Space.OUTBOX]), bytes([Space.RECEIVED + 1])


def topic(name: bytes) -> bytes:
    """Key of a topic's entry in the registry."""
    return _TOPIC + name


def topic_name(key: bytes) -> bytes:
    """Parse `topic`."""
    return key[1:]


def topics() -> KeyRange:
    """Range of the registry of topics."""
    return space_range(Space.TOPIC)


def purge(topic_id: int) -> bytes:
    """Key that states that a topic is deleted and some of its keys remain."""
    return TOPIC_LAYOUT.pack(Space.PURGE, topic_id)


def purge_topic_id(key: bytes) -> int:
    """Parse `purge`."""
    topic_id: int = TOPIC_LAYOUT.unpack(key)[1]
    return topic_id


def purges() -> KeyRange:
    """Range of the deleted topics whose keys remain."""
    return space_range(Space.PURGE)


def head(topic_id: int, partition: int) -> bytes:
    """Key of a partition's next sequence number."""
    return PARTITION_LAYOUT.pack(_HEAD, topic_id, partition)


def cursor(topic_id: int, partition: int, group: int) -> bytes:
    """Key of a group's state in a partition."""
    return GROUP_LAYOUT.pack(_CURSOR, topic_id, partition, group)


def cursors(topic_id: int, partitions: Iterable[int], group: int) -> Iterator[bytes]:
    """Yield the keys of a group's state in partitions, of which there may be thousands."""
    return map(GROUP_LAYOUT.pack, repeat(_CURSOR), repeat(topic_id), partitions, repeat(group))


def bitmap(topic_id: int, partition: int, group: int, first_seq: int) -> bytes:
    """Key of the settled bits of a chunk."""
    return _bitmap.pack(_BITMAP, topic_id, partition, group, RESERVED, first_seq)


def bitmap_first_seq(key: bytes) -> int:
    """Parse `bitmap`."""
    first_seq: int = _bitmap.unpack(key)[5]
    return first_seq


def bitmaps(topic_id: int, partition: int, group: int) -> KeyRange:
    """Range of the bitmaps of a group in a partition."""
    return bitmap(topic_id, partition, group, 0), GROUP_LAYOUT.pack(_BITMAP, topic_id, partition, group + 1)


def gap(topic_id: int, partition: int, group: int, first_seq: int) -> bytes:
    """Key of a run of settled messages after an unsettled message."""
    return _bitmap.pack(_GAP, topic_id, partition, group, RESERVED, first_seq)


def gap_first_seq(key: bytes) -> int:
    """Parse `gap`."""
    return bitmap_first_seq(key)


def gaps(topic_id: int, partition: int, group: int) -> KeyRange:
    """Range of the gaps of a group in a partition."""
    return gap(topic_id, partition, group, 0), GROUP_LAYOUT.pack(_GAP, topic_id, partition, group + 1)


def settings(topic_id: int) -> bytes:
    """Key of the settings of a topic."""
    return TOPIC_LAYOUT.pack(_SETTINGS, topic_id)


def chunk(topic_id: int, partition: int, first_seq: int) -> bytes:
    """Key of a chunk."""
    return _chunk.pack(_CHUNK, topic_id, partition, RESERVED, first_seq)


def chunks(topic_id: int, partition: int, first_seq: int) -> KeyRange:
    """Range of the chunks of a partition that begin at `first_seq` or later."""
    return chunk(topic_id, partition, first_seq), chunk(topic_id, partition, MAX_UINT64) + b"\x00"


def chunk_first_seq(key: bytes) -> int:
    """Parse `chunk`."""
    first_seq: int = _chunk.unpack(key)[4]
    return first_seq


def record(topic_id: int, partition: int, group: int, range_: Range, order: int) -> bytes:
    """Key of a returned message."""
    return _record.pack(_RECORD, topic_id, partition, group, range_, order >> 64, order & MAX_UINT64)


def record_order(key: bytes) -> int:
    """Parse `record`."""
    high, low = _record.unpack(key)[5:]
    order: int = high << 64 | low
    return order


def records(topic_id: int, partition: int, group: int, range_: Range, start_order: int) -> KeyRange:
    """Range of the messages that were returned to `range_`, from `start_order` on."""
    return (
        record(topic_id, partition, group, range_, start_order),
        record(topic_id, partition, group, range_, _MAX_128) + b"\x00",
    )


def with_topic_id(key: bytes, topic_id: int) -> bytes:
    """Return the key that is the same in another topic; only for a key of a topic, from HEAD to TRACE."""
    return TOPIC_LAYOUT.pack(key[0], topic_id) + key[TOPIC_LAYOUT.size :]


def parse(key: bytes) -> Parts:
    """Parse a key of any space; raise CorruptionError if the grammar has no such key."""
    try:
        space = Space(key[0])
        return _PARSERS[space](space, key)
    except (IndexError, ValueError, struct.error) as exc:
        raise CorruptionError("no key of this format") from exc


def _parse_constant(space: Space, key: bytes) -> Parts:
    if len(key) > 1:
        raise ValueError
    return Parts(space)


def _parse_name(space: Space, key: bytes) -> Parts:
    return Parts(space)


def _parse_fixed(space: Space, key: bytes) -> Parts:
    return Parts(space, *_FIXED[space].unpack(key)[1:])


def _parse_task(space: Space, key: bytes) -> Parts:
    return Parts(space, order=TASK_LAYOUT.unpack(key)[1])


def _parse_shard(space: Space, key: bytes) -> Parts:
    return Parts(space, order=SHARD_LAYOUT.unpack(key)[1])


def _parse_chunk(space: Space, key: bytes) -> Parts:
    topic_id, partition, reserved, first_seq = _chunk.unpack(key)[1:]
    return Parts(space, topic_id, partition, reserved=reserved, order=first_seq)


def _parse_record(space: Space, key: bytes) -> Parts:
    topic_id, partition, group, range_ = _record.unpack(key)[1:5]
    return Parts(space, topic_id, partition, group, order=record_order(key), range_=range_)


def _parse_commit(space: Space, key: bytes) -> Parts:
    topic_id, committed_at_ms, serial = COMMIT_LAYOUT.unpack(key)[1:]
    return Parts(space, topic_id, order=committed_at_ms << 64 | serial)


def _parse_topic(space: Space, key: bytes) -> Parts:
    """Parse a key in which a name or a unique key follows the topic."""
    return Parts(space, TOPIC_LAYOUT.unpack_from(key)[1])


def _parse_serial(space: Space, key: bytes) -> Parts:
    topic_id, partition, time_or_block, serial = SERIAL_LAYOUT.unpack(key)[1:]
    return Parts(space, topic_id, partition, order=time_or_block << 64 | serial)


#: Layouts of the keys whose parts are the first parts of `Parts`, in that order.
_FIXED = {
    **dict.fromkeys((Space.PURGE, Space.SETTINGS, Space.TRACES), TOPIC_LAYOUT),
    **dict.fromkeys((Space.HEAD, Space.DELAYS, Space.START, Space.GROWTH), PARTITION_LAYOUT),
    **dict.fromkeys((Space.CURSOR, Space.GROUP_PURGE), GROUP_LAYOUT),
    **dict.fromkeys((Space.BITMAP, Space.GAP), _bitmap),
}
_PARSERS = {
    **dict.fromkeys((Space.COMMIT, Space.NEXT_TOPIC, Space.SENT), _parse_constant),
    **dict.fromkeys((Space.TOPIC, Space.TICK, Space.SCHEDULE), _parse_name),
    **dict.fromkeys(_FIXED, _parse_fixed),
    **dict.fromkeys((Space.TASK, Space.OUTBOX), _parse_task),
    Space.RECEIVED: _parse_shard,
    Space.DEDUP: _parse_commit,
    Space.CHUNK: _parse_chunk,
    Space.RECORD: _parse_record,
    **dict.fromkeys((Space.DELAYED, Space.TRACE), _parse_serial),
    **dict.fromkeys((Space.UNIQUE, Space.GROUP), _parse_topic),
}


def of_topic(topic_id: int) -> list[KeyRange]:
    """Every range that holds keys of a topic, except its entry in the registry."""
    return [topic_range(space, topic_id) for space in Space if Space.HEAD <= space < Space.SCHEDULE]
