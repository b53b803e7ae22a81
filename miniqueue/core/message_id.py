"""Message ids as clients see them: `<partition>-<seq>`, both decimal; one of a priority names it behind the partition.

0-17    0.high-17    0.low-17
"""

import re

from miniqueue.core.lanes import lane, partition_of, priority_of
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.publish_options import Priority

_ID = re.compile(rb"(\d{1,5})(?:\.(high|low))?-(\d{1,19})")
_MAX_PARTITION = (1 << 16) - 1


def format_message_id(partition: int, seq: int) -> bytes:
    """Return the id of a message; `partition` is the number of its lane."""
    if partition <= _MAX_PARTITION:
        return b"%d-%d" % (partition, seq)
    return b"%d.%b-%d" % (partition_of(partition), priority_of(partition).encode(), seq)


def parse_message_id(word: bytes) -> tuple[int, int]:
    """Return the number of the lane and the sequence number; raises InvalidOptionError when `word` is no id."""
    found = _ID.fullmatch(word)
    if found is None or int(found[1]) > _MAX_PARTITION:
        raise InvalidOptionError("the id of a message is its partition and its number, as in 0-17 or 0.high-17")
    priority = Priority(found[2].decode()) if found[2] else Priority.NORMAL
    return lane(int(found[1]), priority), int(found[3])


def following_ids(message_id: bytes, count: int) -> list[bytes]:
    """Return the ids of `count` messages of one log that follow each other, from `message_id` on."""
    number, first_seq = parse_message_id(message_id)
    return [format_message_id(number, seq) for seq in range(first_seq, first_seq + count)]
