"""Keys of traces; `keys` has their grammar.

A block is `BLOCK_MESSAGES` messages whose sequence numbers follow each other. What a commit did to some of them is one
value; those of a block are in the order of their commits. So who asks for one message reads its block, and what is
oldest is in front, but for blocks whose messages take long.
"""

import struct

from miniqueue.storage.keys import KeyRange, Space

BLOCK_BITS = 11
BLOCK_MESSAGES = 1 << BLOCK_BITS
#: In place of a partition: that of messages that wait for their time, and what happens to whole groups of the topic.
GROUPS = 1 << 30
SHELF = 1 << 31

_traces = struct.Struct(">BQ")
_trace = struct.Struct(">BQIQQ")


def traces(topic_id: int) -> bytes:
    """Key of what is known of all traces of a topic."""
    return _traces.pack(Space.TRACES, topic_id)


def all_traces() -> KeyRange:
    """Range of what is known of the traces of all topics."""
    return bytes([Space.TRACES]), bytes([Space.TRACES + 1])


def traces_topic_id(key: bytes) -> int:
    """Parse `traces`."""
    topic_id: int = _traces.unpack(key)[1]
    return topic_id


def trace(topic_id: int, partition: int, block: int, serial: int) -> bytes:
    """Key of what a commit did to messages of a block."""
    return _trace.pack(Space.TRACE, topic_id, partition, block, serial)


def block_of(key: bytes) -> int:
    """Parse `trace`."""
    block: int = _trace.unpack(key)[3]
    return block


def blocks(topic_id: int, partition: int, block: int) -> KeyRange:
    """Range of the traces of a partition from a block on."""
    return trace(topic_id, partition, block, 0), trace(topic_id, partition + 1, 0, 0)


def block_range(topic_id: int, partition: int, block: int) -> KeyRange:
    """Range of the traces of one block."""
    return trace(topic_id, partition, block, 0), trace(topic_id, partition, block + 1, 0)
