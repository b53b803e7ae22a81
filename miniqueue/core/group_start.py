"""Where a group begins to read, on every protocol.

    earliest    0-17, 0.high-17: that message    1700000000000: what was committed then or later, in ms    latest

    0-17,1-5,1.high-0: these messages, one of each partition

Of the other partitions of a topic, and its lanes, a message says by its commit time where to begin. Where several are
named, the others begin with the earliest one.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from miniqueue.core import names
from miniqueue.core.group_errors import InvalidGroupError
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message_id import parse_message_id
from miniqueue.core.names import DOT_SEGMENTS, check_topic, refusal_of_dots
from miniqueue.errors import InvalidTopicError

DEFAULT_GROUP_NAME: Final = names.DEFAULT_GROUP_NAME
_MAX_TIME_MS: Final = 1 << 62


class Edge(Enum):
    """An end of what can be read."""

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
    """The first message that was committed then or later, in ms since 1970."""

    time_ms: int


Start = Edge | FromMessage | FromMessages | FromTime


def parse_start(word: bytes) -> Start:
    """Return what a word says; raises InvalidOptionError."""
    text = word.decode("utf-8", "replace").lower()
    if text in ("earliest", "latest"):
        return Edge(text)
    if word.isdigit() and len(word) < 20 and int(word) <= _MAX_TIME_MS:
        return FromTime(int(word))
    try:
        ids = [parse_message_id(one) for one in word.split(b",")]
    except InvalidOptionError as exc:
        raise InvalidOptionError("a group begins at earliest, latest, the id of a message or a time in ms") from exc
    if len(ids) == 1:
        return FromMessage(*ids[0])
    if len(seqs := dict(ids)) < len(ids):
        raise InvalidOptionError("a group begins at one message of a partition")
    return FromMessages(seqs)


def check_group(name: bytes) -> bytes:
    """Return `name` if it can name a group: what can name a topic; raises InvalidGroupError."""
    try:
        return check_topic(name)
    except InvalidTopicError as exc:
        raise InvalidGroupError from exc


def check_new_group(name: bytes) -> bytes:
    """Return `name` if a group can be made with it: what a new topic can have; raises InvalidGroupError."""
    if name in DOT_SEGMENTS:
        raise InvalidGroupError(refusal_of_dots("group", name))
    return check_group(name)
