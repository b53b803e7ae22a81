"""Keys of messages that were published with a delay; `keys` has their grammar.

They are ordered by due time, and among those that are due at the same time by serial, which counts them as they come.
"""

import struct

from miniqueue.storage.keys import KeyRange, Space

#: No due time, and no serial, is behind this.
MAX_64 = (1 << 64) - 1

_delays = struct.Struct(">BQI")
_delayed = struct.Struct(">BQIQQ")


def delays(topic_id: int, partition: int) -> bytes:
    """Key of the counts of a partition's delayed messages."""
    return _delays.pack(Space.DELAYS, topic_id, partition)


def delayed(topic_id: int, partition: int, due_at_ms: int, serial: int) -> bytes:
    """Key of a delayed message."""
    return _delayed.pack(Space.DELAYED, topic_id, partition, due_at_ms, serial)


def due_at_ms_and_serial(key: bytes) -> tuple[int, int]:
    """Parse `delayed`."""
    due_at_ms, serial = _delayed.unpack(key)[3:]
    return due_at_ms, serial


def due_between(topic_id: int, partition: int, start: tuple[int, int], stop_ms: int | None = None) -> KeyRange:
    """Range of the messages from a due time and serial on, that are due before `stop_ms`, None for all."""
    if stop_ms is None:
        end = delayed(topic_id, partition, MAX_64, MAX_64) + b"\x00"
    else:
        end = delayed(topic_id, partition, stop_ms, 0)
    return delayed(topic_id, partition, *start), end
