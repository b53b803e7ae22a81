"""The options of consumers, by the names in HTTP queries.

    receive once    group=default  member=worker-1  count=100  wait=20  lease=30  autoack=true
    stream          group=audit  member=worker-1  prefetch=100  session=60  lease=30

All of them are optional; a session requires a member.
"""

from collections.abc import Mapping
from math import nan
from typing import Final, NamedTuple

from miniqueue.core.message.names import DEFAULT_GROUP_NAME, check_group, check_member
from miniqueue.core.options.durations import SECONDS_RULE, parse_seconds
from miniqueue.errors import InvalidDelayError, InvalidPrefetchError, RequestError

#: How long a stream of a member may hold messages and settle none by default, as with Kafka's `max.poll.interval.ms`.
DEFAULT_SESSION_SECONDS: Final = 300.0
#: Minimum and maximum duration of a session.
MIN_SESSION_SECONDS: Final = 0.1
MAX_SESSION_SECONDS: Final = 86_400.0

#: Maximum number of messages that a consumer may hold at a time.
MAX_PREFETCH = 10_000
#: Maximum length of a prefetch: a longer number takes long to parse, and is over the limit anyway.
_MAX_DIGITS = 9

DEFAULT_LEASE_SECONDS: Final = 30.0
#: Maximum duration of a lease, as with the visibility timeout of SQS.
MAX_LEASE_SECONDS: Final = 12 * 3600.0
#: Maximum wait for a message; a client that wants to wait longer asks again.
MAX_WAIT_SECONDS: Final = 60.0

#: The error text of a receipt that settles no message.
NOT_LEASED: Final = "the receipt belongs to no message that is leased now"

_SWITCHES: Final = {b"true": True, b"1": True, b"": True, b"false": False, b"0": False}


def parse_session(word: bytes) -> float:
    """Parse a session in seconds; raises InvalidDelayError."""
    seconds = _parse_seconds(word)
    if not MIN_SESSION_SECONDS <= seconds <= MAX_SESSION_SECONDS:  # NaN is rejected, too
        raise InvalidDelayError(
            f"a session is {SECONDS_RULE} from {MIN_SESSION_SECONDS:g} to {MAX_SESSION_SECONDS:.0f}"
        )
    return seconds


def parse_prefetch(word: bytes) -> int:
    """Parse a prefetch; raises InvalidPrefetchError unless it is a whole number from 1 to `MAX_PREFETCH`."""
    if not word.isdigit() or len(word) > _MAX_DIGITS:
        raise InvalidPrefetchError
    return check_prefetch(int(word))


def check_prefetch(prefetch: int, max_prefetch: int = MAX_PREFETCH) -> int:
    """Return `prefetch` if it is from 1 to `max_prefetch`; raises InvalidPrefetchError otherwise."""
    if not 0 < prefetch <= max_prefetch:
        raise InvalidPrefetchError(max_prefetch)
    return prefetch


class ReceiveOptions(NamedTuple):
    """The options of a consumer that receives messages once.

    Attributes:
      max_count: maximum number of messages.
      wait_seconds: how long to wait for the first message.
      lease_seconds: the duration of the leases; None: the default of the topic or the broker.
      group: the group to read with.
      member: the member of the group, which has partitions of its own; b"" for none.
      is_acked: whether the messages are acknowledged when they are delivered.
    """

    max_count: int = 1
    wait_seconds: float = 0.0
    lease_seconds: float | None = None
    is_acked: bool = False
    group: bytes = DEFAULT_GROUP_NAME
    member: bytes = b""


def parse_receive_options(options: Mapping[str, bytes]) -> ReceiveOptions:
    """Parse the options of a receive; other names in `options` are ignored.

    Raises InvalidPrefetchError for the count, InvalidDelayError for wait and lease, InvalidGroupError for the group,
    InvalidMemberError for the member, RequestError for other options.
    """
    return ReceiveOptions(
        parse_prefetch(options["count"]) if "count" in options else 1,
        _parse_wait(options["wait"]) if "wait" in options else 0.0,
        parse_lease(options["lease"]) if "lease" in options else None,
        parse_switch("autoack", options),
        check_group(options["group"]) if "group" in options else DEFAULT_GROUP_NAME,
        check_member(options["member"]) if "member" in options else b"",
    )


def parse_lease(word: bytes) -> float:
    """Parse the duration of a lease in seconds; raises InvalidDelayError."""
    return check_lease(_parse_seconds(word))


def check_lease(seconds: float) -> float:
    """Return `seconds` if it is more than 0 and at most `MAX_LEASE_SECONDS`; raises InvalidDelayError otherwise."""
    if not 0 < seconds <= MAX_LEASE_SECONDS:  # NaN is rejected, too
        raise InvalidDelayError(f"a lease is {SECONDS_RULE} more than 0 and at most {MAX_LEASE_SECONDS:.0f}")
    return seconds


def _parse_wait(word: bytes) -> float:
    seconds = _parse_seconds(word)
    if not seconds <= MAX_WAIT_SECONDS:
        raise InvalidDelayError(f"a wait is {SECONDS_RULE} from 0 to {MAX_WAIT_SECONDS:.0f}")
    return seconds


def _parse_seconds(word: bytes) -> float:
    """Parse a duration to seconds; return NaN for anything else."""
    try:
        return parse_seconds(word.decode("utf-8", "replace"))
    except InvalidDelayError:
        return nan


def parse_switch(name: str, options: Mapping[str, bytes]) -> bool:
    """Parse an option that is true or false: false if it is missing, true if it is empty; raises RequestError."""
    word = options.get(name, b"false")
    if word not in _SWITCHES:
        raise RequestError(f"{name} is true or false")
    return _SWITCHES[word]


class StreamOptions(NamedTuple):
    """The options of a consumer that stays connected.

    Attributes:
      prefetch: maximum number of leased messages; None: the plain form, one message at a time and without receipts.
      group: the group to read with.
      member: the member of the group, which has partitions of its own; b"" for none.
      session_seconds: how long a member may hold messages and settle none.
      lease_seconds: the duration of the leases; None: they last until the stream ends.
    """

    prefetch: int | None = None
    group: bytes = DEFAULT_GROUP_NAME
    member: bytes = b""
    session_seconds: float = DEFAULT_SESSION_SECONDS
    lease_seconds: float | None = None


def parse_stream_options(options: Mapping[str, bytes]) -> StreamOptions:
    """Parse the options of a stream; other names in `options` are ignored.

    Raises InvalidPrefetchError, InvalidMemberError, InvalidDelayError for session and lease, or RequestError for a
    session without a member. The broker checks the name of the group when it creates the group.
    """
    if "session" in options and "member" not in options:
        raise RequestError("session without a member; name the MEMBER too, or leave SESSION out")
    return StreamOptions(
        parse_prefetch(options["prefetch"]) if "prefetch" in options else None,
        options.get("group", DEFAULT_GROUP_NAME),
        check_member(options["member"]) if "member" in options else b"",
        parse_session(options["session"]) if "session" in options else DEFAULT_SESSION_SECONDS,
        parse_lease(options["lease"]) if "lease" in options else None,
    )
