"""Keys of traces: the events of a block (TRACE), and the size of the traces of a topic (TRACES); see `keys`.

A block is `BLOCK_MESSAGES` messages with consecutive sequence numbers. Each commit stores the events of the messages
of a block as one value; the values of a block are in the order of the commits. A reader of one message therefore reads
only its block, and the oldest values come first, unless the messages of a block take long. `traces` makes the values.
"""

from miniqueue.storage.format.keys import SERIAL_LAYOUT, TOPIC_LAYOUT, KeyRange, Space, space_range

BLOCK_BITS = 11
BLOCK_MESSAGES = 1 << BLOCK_BITS
#: The partition number of events that affect whole groups of a topic.
GROUPS = 1 << 30
#: Added to the number of a partition: the number under which the events of its delayed messages are stored.
SHELF = 1 << 31


def traces(topic_id: int) -> bytes:
    """Key of the size of the traces of a topic."""
    return TOPIC_LAYOUT.pack(Space.TRACES, topic_id)


def all_traces() -> KeyRange:
    """Range of the sizes of the traces of all topics."""
    return space_range(Space.TRACES)


def traces_topic_id(key: bytes) -> int:
    """Parse `traces`."""
    topic_id: int = TOPIC_LAYOUT.unpack(key)[1]
    return topic_id


def trace(topic_id: int, partition: int, block: int, serial: int) -> bytes:
    """Key of the events of a commit, of messages of a block."""
    return SERIAL_LAYOUT.pack(Space.TRACE, topic_id, partition, block, serial)


def block_of(key: bytes) -> int:
    """Parse `trace`."""
    block: int = SERIAL_LAYOUT.unpack(key)[3]
    return block


def blocks(topic_id: int, partition: int, block: int) -> KeyRange:
    """Range of the traces of a partition from a block on."""
    return trace(topic_id, partition, block, 0), trace(topic_id, partition + 1, 0, 0)


def block_range(topic_id: int, partition: int, block: int) -> KeyRange:
    """Range of the traces of one block."""
    return trace(topic_id, partition, block, 0), trace(topic_id, partition, block + 1, 0)
