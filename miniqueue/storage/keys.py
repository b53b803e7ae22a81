"""The one file that makes and parses keys.

    key         = space rest                     one byte, then what follows; integers are big-endian
    NEXT_TOPIC  = 0x02                           value: the next topic id
    TOPIC       = 0x03 name                      value: topic id, creation time
    PURGE       = 0x04 topic:8                   value: empty; the topic is deleted, its keys not yet all
    TICK        = 0x05 name                      value: when the schedule of this name next makes a message
    HEAD        = 0x10 topic:8 partition:4                              value: next sequence number
    CURSOR      = 0x11 topic:8 partition:4 group:4                      value: CursorState
    BITMAP      = 0x12 topic:8 partition:4 group:4 lane:1 first_seq:8   value: settled bits of a chunk
    GAP         = 0x13 topic:8 partition:4 group:4 lane:1 first_seq:8   value: the sequence number after the gap
    SETTINGS    = 0x14 topic:8                                          value: settings of the topic that were changed
    DELAYS      = 0x15 topic:8 partition:4                              value: what is published and not yet due
    DEDUP       = 0x16 topic:8 committed_at_ms:8 serial:8               value: the dedup ids of a commit
    GROUP       = 0x17 topic:8 name                                     value: group id, creation time
    START       = 0x18 topic:8 partition:4                              value: where the log begins, if some is kept
    GROUP_PURGE = 0x19 topic:8 0:4 group:4  value: empty; the group is deleted, its keys not yet all
    TRACES      = 0x1A topic:8                                          value: how much is stored of traces
    GROWTH      = 0x1B topic:8 partition_count:4      value: where logs ended when there were no longer so many
    CHUNK       = 0x20 topic:8 partition:4 lane:1 first_seq:8           value: messages
    RECORD      = 0x21 topic:8 partition:4 group:4 range:1 order:16     value: one message that came back
    DELAYED     = 0x22 topic:8 partition:4 due_at_ms:8 serial:8         value: one message that is not yet due
    TRACE       = 0x24 topic:8 partition:4 block:8 serial:8             value: what a commit did to messages of a block
    UNIQUE      = 0x23 topic:8 size:2 key id                            value: when the message with the key expires
    SCHEDULE    = 0x30 name                                             value: what makes messages, and when

A name is only ever the whole rest of its key, and everything else has a fixed width, so no name can collide with
another's range or be a prefix of it; it is the same with the id behind a unique key. Some keys are made in
`delay_keys.py` and files like it. Topic ids are never reused: what a deleted topic leaves behind can be removed at
leisure. `lane` is always 1: each priority has a number of the partition (`core.lanes`). HEAD is written with CURSOR;
chunks that begin there or later are all there, and the last of them says what the next number is. Stores that were
begun in format 1 may have a key 0x01, COMMIT, with the number of the last commit; nobody reads it.

To change the grammar: raise FORMAT_VERSION in `store_marker.py`, keep the old functions for reading, add the step
that rewrites an old store, and a golden file of the old format to the tests (docs/storage-format.md).
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from miniqueue.core.lease import Range
from miniqueue.errors import CorruptionError


class Space(IntEnum):
    """The first byte of a key."""

    COMMIT = 0x01
    NEXT_TOPIC = 0x02
    TOPIC = 0x03
    PURGE = 0x04
    TICK = 0x05
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
    """What a key says; 0 where its space has no such part.

    `lane` is the range of a record, `order` also the first sequence number of a bitmap, gap or chunk; of a delayed
    message its due time and its serial, of dedup ids those of their commit, of a trace its block and its serial.
    """

    space: Space
    topic_id: int = 0
    partition: int = 0
    group: int = 0
    lane: int = 0
    order: int = 0


NEXT_TOPIC = bytes([Space.NEXT_TOPIC])

LANE_NORMAL = 1

_TOPIC, _PURGE = bytes([Space.TOPIC]), bytes([Space.PURGE])
_HEAD, _CURSOR, _BITMAP, _GAP, _SETTINGS, _CHUNK, _RECORD = 0x10, 0x11, 0x12, 0x13, 0x14, 0x20, 0x21
_MAX_64, _MAX_128 = (1 << 64) - 1, (1 << 128) - 1

_purge, _head = struct.Struct(">cQ"), struct.Struct(">BQI")
_cursor = struct.Struct(">BQII")
_bitmap = struct.Struct(">BQIIBQ")
_chunk = struct.Struct(">BQIBQ")
_record, _dedup = struct.Struct(">BQIIBQQ"), struct.Struct(">BQQQ")
_delayed, _space = struct.Struct(">BQIQQ"), struct.Struct(">BQ")

#: A key range, as (start, stop) with start <= key < stop.
KeyRange = tuple[bytes, bytes]


def state() -> KeyRange:
    """Range of everything but the messages: what a start reads."""
    return bytes([Space.COMMIT]), bytes([_CHUNK])


def topic(name: bytes) -> bytes:
    """Key of a topic's entry in the registry."""
    return _TOPIC + name


def topic_name(key: bytes) -> bytes:
    """Parse `topic`."""
    return key[1:]


def topics() -> KeyRange:
    """Range of the registry."""
    return _TOPIC, _PURGE


def purge(topic_id: int) -> bytes:
    """Key that says: this topic is deleted, its keys not yet all."""
    return _purge.pack(_PURGE, topic_id)


def purge_topic_id(key: bytes) -> int:
    """Parse `purge`."""
    topic_id: int = _purge.unpack(key)[1]
    return topic_id


def purges() -> KeyRange:
    """Range of the topics still to be purged."""
    return _PURGE, b"\x05"


def head(topic_id: int, partition: int) -> bytes:
    """Key of a partition's next sequence number."""
    return _head.pack(_HEAD, topic_id, partition)


def cursor(topic_id: int, partition: int, group: int) -> bytes:
    """Key of a group's state in a partition."""
    return _cursor.pack(_CURSOR, topic_id, partition, group)


def bitmap(topic_id: int, partition: int, group: int, first_seq: int) -> bytes:
    """Key of the settled bits of a chunk."""
    return _bitmap.pack(_BITMAP, topic_id, partition, group, LANE_NORMAL, first_seq)


def bitmap_first_seq(key: bytes) -> int:
    """Parse `bitmap`."""
    first_seq: int = _bitmap.unpack(key)[5]
    return first_seq


def bitmaps(topic_id: int, partition: int, group: int) -> KeyRange:
    """Range of the bitmaps of a group in a partition."""
    return bitmap(topic_id, partition, group, 0), _cursor.pack(_BITMAP, topic_id, partition, group + 1)


def gap(topic_id: int, partition: int, group: int, first_seq: int) -> bytes:
    """Key of a run of finished messages behind one that is not."""
    return _bitmap.pack(_GAP, topic_id, partition, group, LANE_NORMAL, first_seq)


def gap_first_seq(key: bytes) -> int:
    """Parse `gap`."""
    return bitmap_first_seq(key)


def gaps(topic_id: int, partition: int, group: int) -> KeyRange:
    """Range of the gaps of a group in a partition."""
    return gap(topic_id, partition, group, 0), _cursor.pack(_GAP, topic_id, partition, group + 1)


def settings(topic_id: int) -> bytes:
    """Key of the settings of a topic."""
    return _space.pack(_SETTINGS, topic_id)


def chunk(topic_id: int, partition: int, first_seq: int) -> bytes:
    """Key of a chunk."""
    return _chunk.pack(_CHUNK, topic_id, partition, LANE_NORMAL, first_seq)


def chunks(topic_id: int, partition: int, first_seq: int) -> KeyRange:
    """Range of the chunks of a partition that begin at `first_seq` or later."""
    return chunk(topic_id, partition, first_seq), chunk(topic_id, partition, _MAX_64) + b"\x00"


def chunk_first_seq(key: bytes) -> int:
    """Parse `chunk`."""
    first_seq: int = _chunk.unpack(key)[4]
    return first_seq


def record(topic_id: int, partition: int, group: int, place: Range, order: int) -> bytes:
    """Key of a message that came back."""
    return _record.pack(_RECORD, topic_id, partition, group, place, order >> 64, order & _MAX_64)


def record_order(key: bytes) -> int:
    """Parse `record`."""
    high, low = _record.unpack(key)[5:]
    order: int = high << 64 | low
    return order


def records(topic_id: int, partition: int, group: int, place: Range, start_order: int) -> KeyRange:
    """Range of the messages that came back to `place`, from `start_order` on."""
    return (
        record(topic_id, partition, group, place, start_order),
        record(topic_id, partition, group, place, _MAX_128) + b"\x00",
    )


def parse(key: bytes) -> Parts:
    """Parse a key of any space; raises CorruptionError when there is no such key in this grammar."""
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


def _parse_chunk(space: Space, key: bytes) -> Parts:
    topic_id, partition, lane, first_seq = _chunk.unpack(key)[1:]
    return Parts(space, topic_id, partition, 0, lane, first_seq)


def _parse_record(space: Space, key: bytes) -> Parts:
    topic_id, partition, group, place = _record.unpack(key)[1:5]
    return Parts(space, topic_id, partition, group, place, record_order(key))


def _parse_dedup(space: Space, key: bytes) -> Parts:
    topic_id, committed_at_ms, serial = _dedup.unpack(key)[1:]
    return Parts(space, topic_id, order=committed_at_ms << 64 | serial)


def _parse_unique(space: Space, key: bytes) -> Parts:
    return Parts(space, _space.unpack_from(key)[1])


def _parse_delayed(space: Space, key: bytes) -> Parts:
    topic_id, partition, due_at_ms, serial = _delayed.unpack(key)[1:]
    return Parts(space, topic_id, partition, 0, 0, due_at_ms << 64 | serial)


#: Keys that have all parts up to the last they have.
_FIXED = {
    **{Space.PURGE: _purge, Space.CURSOR: _cursor, Space.BITMAP: _bitmap, Space.GAP: _bitmap},
    **dict.fromkeys((Space.SETTINGS, Space.TRACES), _space),
    **dict.fromkeys((Space.HEAD, Space.DELAYS, Space.START, Space.GROWTH), _head),
    Space.GROUP_PURGE: _cursor,
}
_PARSERS = {
    **dict.fromkeys((Space.COMMIT, Space.NEXT_TOPIC), _parse_constant),
    **dict.fromkeys((Space.TOPIC, Space.TICK, Space.SCHEDULE), _parse_name),
    **dict.fromkeys(_FIXED, _parse_fixed),
    Space.DEDUP: _parse_dedup,
    Space.CHUNK: _parse_chunk,
    Space.RECORD: _parse_record,
    **dict.fromkeys((Space.DELAYED, Space.TRACE), _parse_delayed),
    **dict.fromkeys((Space.UNIQUE, Space.GROUP), _parse_unique),
}


def of_topic(topic_id: int) -> list[KeyRange]:
    """Every range that holds keys of a topic, beside its entry in the registry."""
    spaces = [space for space in Space if _HEAD <= space < Space.SCHEDULE]
    return [(_space.pack(space, topic_id), _space.pack(space, topic_id + 1)) for space in spaces]
