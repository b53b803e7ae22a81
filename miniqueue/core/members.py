"""Names and sessions of a group's members, and what is wrong with a request to be one."""

from math import nan
from typing import Final

from miniqueue.core.delay import parse_delay
from miniqueue.core.names import check_topic
from miniqueue.errors import InvalidDelayError, InvalidTopicError, RequestError

#: For how long a stream of a member may hold messages and settle none; Kafka's `max.poll.interval.ms` is the same.
DEFAULT_SESSION_SECONDS: Final = 300.0
MIN_SESSION_SECONDS: Final = 0.1
MAX_SESSION_SECONDS: Final = 86_400.0


class InvalidMemberError(RequestError):
    """The name of a member must be 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADMEMBER"


class MembersOnlyError(RequestError):
    """The group has members, each with partitions of its own: name one with MEMBER."""

    code = "MEMBERS"


class NoMembersError(RequestError):
    """The group has consumers that are no members, which compete for all partitions; they must leave first."""

    code = "MEMBERS"


class SessionOverError(RequestError):
    """The session of a member is over: it held messages and settled none for too long."""

    code = "SESSIONOVER"

    def __init__(self, member: bytes, session_seconds: float) -> None:
        super().__init__(
            f"member {member.decode()}: it held messages and settled none for {session_seconds:g} s, its session; "
            "they and its partitions go to others; settle sooner, or subscribe with a longer SESSION"
        )


def check_member(name: bytes) -> bytes:
    """Return `name` if it can name a member: what can name a topic; raises InvalidMemberError."""
    try:
        return check_topic(name)
    except InvalidTopicError as exc:
        raise InvalidMemberError from exc


def parse_session(word: bytes) -> float:
    """Return the seconds of a session; raises InvalidDelayError."""
    try:
        seconds = parse_delay(word.decode("utf-8", "replace"))
    except InvalidDelayError:
        seconds = nan
    if not MIN_SESSION_SECONDS <= seconds <= MAX_SESSION_SECONDS:  # nor for nan
        raise InvalidDelayError(
            f"a session is a number of seconds, from {MIN_SESSION_SECONDS:g} to {MAX_SESSION_SECONDS:.0f}"
        )
    return seconds
