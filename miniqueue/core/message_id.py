"""Message ids as clients see them: `<partition>-<seq>`, both decimal; one of a priority names it behind the partition.

0-17    0.high-17    0.low-17

Ids of a batch are told by their runs, `0-17*3,5-2,0-20`: three from 0-17 on, one, and as many more as there are.
"""

import re
from collections.abc import Iterable

from miniqueue.core.lanes import lane, partition_of, priority_of
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.numerals import spell
from miniqueue.core.publish_options import Priority

_ID = re.compile(rb"(\d{1,5})(?:\.(high|low))?-(\d{1,19})")
_MAX_PARTITION = (1 << 16) - 1


def format_message_id(partition: int, seq: int) -> bytes:
    """Return the id of a message; `partition` is the number of its lane."""
    if partition <= _MAX_PARTITION:
        return b"%d-%d" % (partition, seq)
    return b"%d.%b-%d" % (partition_of(partition), priority_of(partition).encode(), seq)


def id_prefix(partition: int) -> bytes:
    """Return what stands in front of the number in the ids of the messages of one lane."""
    return format_message_id(partition, 0).removesuffix(b"0")


def parse_message_id(word: bytes) -> tuple[int, int]:
    """Return the number of the lane and the sequence number; raises InvalidOptionError when `word` is no id."""
    found = _ID.fullmatch(word)
    if found is None or int(found[1]) > _MAX_PARTITION:
        raise InvalidOptionError("the id of a message is its partition and its number, as in 0-17 or 0.high-17")
    priority = Priority(found[2].decode()) if found[2] else Priority.NORMAL
    return lane(int(found[1]), priority), int(found[3])


def joined_ids(places: Iterable[tuple[int, int]]) -> bytes:
    """Return the ids of messages, each with its partition and sequence number, as runs; there is at least one."""
    ids: list[bytes] = []
    counts: list[int] = []
    last_number, next_seq = -1, -1
    for number, seq in places:
        if seq == next_seq and number == last_number:
            counts[-1] += 1
        else:
            ids.append(format_message_id(number, seq))
            counts.append(1)
            last_number = number
        next_seq = seq + 1
    words = [one if count == 1 else b"%b*%d" % (one, count) for one, count in zip(ids, counts, strict=True)]
    return b",".join([*words[:-1], ids[-1]])


def runs_of(message_id: bytes, count: int) -> list[tuple[bytes, int]]:
    """Return the runs of the ids of `count` messages, which `joined_ids` has told: the first id, and how many follow.

    The numbers of the others of a run follow that of the first, which counts.
    """
    *runs, last = message_id.split(b",")
    counted = [(first, int(length or 1)) for first, _, length in (run.partition(b"*") for run in runs)]
    return [*counted, (last, count - sum(length for _, length in counted))]


def following_ids(message_id: bytes, count: int) -> list[bytes]:
    """Return the ids of `count` messages, which `joined_ids` has told, or which follow that of the first."""
    return [one for run in runs_of(message_id, count) for one in _ids_from(*run)]


def first_id(message_id: bytes) -> bytes:
    """Return the first of the ids that `joined_ids` has told."""
    return message_id.partition(b",")[0].partition(b"*")[0]


def seqs_from(first_id: bytes, count: int) -> tuple[bytes, range]:
    """Return what the ids of a run begin with, and the numbers that stand behind it."""
    prefix, dash, first_seq = first_id.rpartition(b"-")
    return prefix + dash, range(int(first_seq), int(first_seq) + count)


def _ids_from(first_id: bytes, count: int) -> list[bytes]:
    prefix, seqs = seqs_from(first_id, count)
    ids: list[bytes] = []
    for beginning, endings in spell(seqs.start, seqs.stop):
        ids += map((prefix + beginning).__add__, endings)
    return ids
