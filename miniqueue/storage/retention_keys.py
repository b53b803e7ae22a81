"""The key of where the log of a partition begins that keeps what all groups are done with; `keys` has its grammar."""

import struct

from miniqueue.storage.keys import Space

_start = struct.Struct(">BQI")


def start(topic_id: int, partition: int) -> bytes:
    """Key of where the log of a partition begins; there is none where nothing is kept that all groups are done with."""
    return _start.pack(Space.START, topic_id, partition)
