"""Message ids as clients see them.

    0-17                     <partition>-<seq>, both decimal
    0.high-17    0.low-17    of a message whose priority is not normal
    0-17*3,5-2,0-20          the ids of a batch as runs: three from 0-17 on, then 5-2, then the rest from 0-20 on
    0-1700000000000-17       <partition>-<due_at_ms>-<serial>, all decimal: of a delayed message

The id of a delayed message contains its position in the store, so that reading or cancelling it is one lookup. When the
message is due, it gets an ordinary id.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from miniqueue.core.message.lanes import Priority, lane, partition_of, priority_of
from miniqueue.core.message.numerals import numeral_runs
from miniqueue.errors.requests import InvalidOptionError

_ID = re.compile(rb"(\d{1,5})(?:\.(high|low))?-(\d{1,19})")
_MAX_PARTITION = (1 << 16) - 1


def format_message_id(partition: int, seq: int) -> bytes:
    """Return the id of a message; `partition` is the number of the lane."""
    if partition <= _MAX_PARTITION:
        return b"%d-%d" % (partition, seq)
    return b"%d.%b-%d" % (partition_of(partition), priority_of(partition).encode(), seq)


def id_prefix(partition: int) -> bytes:
    """Return the part before the sequence number in the ids of the messages of a lane."""
    return format_message_id(partition, 0).removesuffix(b"0")


def parse_message_id(word: bytes) -> tuple[int, int]:
    """Return the number of the lane and the sequence number; raises InvalidOptionError if `word` is no id."""
    match = _ID.fullmatch(word)
    if match is None or int(match[1]) > _MAX_PARTITION:
        raise InvalidOptionError("the id of a message is its partition and its number, as in 0-17 or 0.high-17")
    priority = Priority(match[2].decode()) if match[2] else Priority.NORMAL
    return lane(int(match[1]), priority), int(match[3])


def joined_ids(messages: Iterable[tuple[int, int]]) -> bytes:
    """Return the ids of messages as runs; `messages` has a (lane, sequence number) of each, and is not empty."""
    ids: list[bytes] = []
    counts: list[int] = []
    last_number, next_seq = -1, -1
    for number, seq in messages:
        if seq == next_seq and number == last_number:
            counts[-1] += 1
        else:
            ids.append(format_message_id(number, seq))
            counts.append(1)
            last_number = number
        next_seq = seq + 1
    words = [first if count == 1 else b"%b*%d" % (first, count) for first, count in zip(ids, counts, strict=True)]
    return b",".join([*words[:-1], ids[-1]])


def runs_of(message_id: bytes, count: int) -> list[tuple[bytes, int]]:
    """Parse the result of `joined_ids` for `count` messages: return the first id and the length of each run.

    The ids of a run have consecutive sequence numbers.
    """
    *runs, last = message_id.split(b",")
    counted = [(first, int(length or 1)) for first, _, length in (run.partition(b"*") for run in runs)]
    return [*counted, (last, count - sum(length for _, length in counted))]


def following_ids(message_id: bytes, count: int) -> list[bytes]:
    """Return the ids of `count` messages, from the result of `joined_ids`, or from the id of the first message."""
    return [each for run in runs_of(message_id, count) for each in _ids_from(*run)]


def first_id(message_id: bytes) -> bytes:
    """Return the first id of a result of `joined_ids`."""
    return message_id.partition(b",")[0].partition(b"*")[0]


def seqs_from(first_id: bytes, count: int) -> tuple[bytes, range]:
    """Return the common prefix of the ids of a run, and the sequence numbers that follow it."""
    prefix, dash, first_seq = first_id.rpartition(b"-")
    return prefix + dash, range(int(first_seq), int(first_seq) + count)


def _ids_from(first_id: bytes, count: int) -> list[bytes]:
    prefix, seqs = seqs_from(first_id, count)
    ids: list[bytes] = []
    for beginning, endings in numeral_runs(seqs.start, seqs.stop):
        ids += map((prefix + beginning).__add__, endings)
    return ids


_DELAYED_ID = re.compile(rb"(\d{1,9})-(\d{1,19})-(\d{1,19})")


class DelayedId(NamedTuple):
    """The id of a delayed message, which is its position in the store."""

    partition: int
    due_at_ms: int
    serial: int

    def __bytes__(self) -> bytes:
        """Encode the id as clients see it."""
        return b"%d-%d-%d" % self


def parse_delayed_id(word: bytes) -> DelayedId:
    """Parse the id of a delayed message; raises InvalidOptionError if `word` is none."""
    match = _DELAYED_ID.fullmatch(word)
    if match is None:
        raise InvalidOptionError("the id of a delayed message is three numbers, as in 0-1700000000000-17")
    return DelayedId(*map(int, match.groups()))


def parse_any_id(word: bytes) -> tuple[int, int] | DelayedId:
    """Parse the id of a message, delayed or not; raises InvalidOptionError."""
    return parse_delayed_id(word) if word.count(b"-") > 1 else parse_message_id(word)
