"""The start position of a group.

    earliest             the first message of each partition
    latest               the next published message
    0-17, 0.high-17      this message; other partitions and lanes begin at its commit time
    0-17,1-5,1.high-0    these messages, one of each partition; others begin with the earliest one
    1700000000000        the first message that was committed at this time, in ms, or later
    2026-12-01T08:00:00Z the same, for a time in RFC 3339

Earliest means the first message that can be read, which retention may keep although all groups have settled it.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from miniqueue.core.message.ids import parse_message_id
from miniqueue.core.options.durations import TIME_RULE, parse_time_ms
from miniqueue.errors.requests import InvalidOptionError


class Edge(Enum):
    """An end of the readable log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class FromMessage(NamedTuple):
    """The message with this id, whose partition is the number of a lane."""

    partition: int
    seq: int


class FromMessages(NamedTuple):
    """The messages with these sequence numbers, by the numbers of their lanes."""

    seqs: Mapping[int, int]


class FromTime(NamedTuple):
    """The first message that was committed at this time or later, in ms since 1970."""

    time_ms: int


Start = Edge | FromMessage | FromMessages | FromTime


def parse_start(word: bytes) -> Start:
    """Parse a start position; raises InvalidOptionError."""
    text = word.decode("utf-8", "replace").lower()
    if text in ("earliest", "latest"):
        return Edge(text)
    try:
        return FromTime(parse_time_ms(text))
    except InvalidOptionError:
        pass  # an id, perhaps
    try:
        ids = [parse_message_id(part) for part in word.split(b",")]
    except InvalidOptionError as exc:
        raise InvalidOptionError(f"a group begins at earliest, latest, the id of a message, {TIME_RULE}") from exc
    if len(ids) == 1:
        return FromMessage(*ids[0])
    if len(seqs := dict(ids)) < len(ids):
        raise InvalidOptionError("a group begins at one message of a partition")
    return FromMessages(seqs)
