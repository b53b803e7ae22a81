"""What a consumer that asks for messages once can say about it, on every protocol.

Knows words and figures only: a name, as it is written in HTTP's query, and a text for each.

    group=default  member=worker-1  count=100  wait=20  lease=30  autoack=true
"""

from collections.abc import Mapping
from math import nan
from typing import Final, NamedTuple

from miniqueue.core.delay import parse_delay
from miniqueue.core.group_start import DEFAULT_GROUP_NAME, check_group
from miniqueue.core.members import check_member
from miniqueue.core.prefetch import parse_prefetch
from miniqueue.errors import InvalidDelayError, RequestError

DEFAULT_LEASE_SECONDS: Final = 30.0
MAX_LEASE_SECONDS: Final = 12 * 3600.0
MAX_WAIT_SECONDS: Final = 60.0

#: What is told of a receipt that settles nothing.
NOT_LEASED: Final = "the receipt belongs to no message that is leased now"

_SWITCHES: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


class ReceiveOptions(NamedTuple):
    """How to receive.

    Attributes:
      max_count: messages at most.
      wait_seconds: how long to wait for the first.
      lease_seconds: how long the messages are the consumer's; None for as long as the broker says.
      group: whose messages.
      member: of the group, which has partitions of its own; b"" for none.
      is_acked: whether the messages are acknowledged as they are handed out.
    """

    max_count: int = 1
    wait_seconds: float = 0.0
    lease_seconds: float | None = None
    is_acked: bool = False
    group: bytes = DEFAULT_GROUP_NAME
    member: bytes = b""


def parse_receive_options(given: Mapping[str, str]) -> ReceiveOptions:
    """Return what `given` says; other names in it do not matter.

    Raises InvalidPrefetchError for the count, InvalidDelayError for wait and lease, InvalidGroupError for the group,
    InvalidMemberError for the member, RequestError for others.
    """
    return ReceiveOptions(
        parse_prefetch(given["count"].encode("utf-8", "replace")) if "count" in given else 1,
        _parse_wait(given["wait"]) if "wait" in given else 0.0,
        parse_lease(given["lease"]) if "lease" in given else None,
        "autoack" in given and _parse_switch(given["autoack"]),
        check_group(given["group"].encode("utf-8", "surrogateescape")) if "group" in given else DEFAULT_GROUP_NAME,
        check_member(given["member"].encode("utf-8", "surrogateescape")) if "member" in given else b"",
    )


def parse_lease(text: str) -> float:
    """Return the seconds that `text` says; raises InvalidDelayError."""
    return check_lease(_parse_seconds(text))


def check_lease(seconds: float) -> float:
    """Return `seconds` if a lease can be as long; raises InvalidDelayError otherwise."""
    if not 0 < seconds <= MAX_LEASE_SECONDS:  # nor for nan
        raise InvalidDelayError(f"a lease is a number of seconds, more than 0 and at most {MAX_LEASE_SECONDS:.0f}")
    return seconds


def _parse_wait(text: str) -> float:
    seconds = _parse_seconds(text)
    if not seconds <= MAX_WAIT_SECONDS:
        raise InvalidDelayError(f"a wait is a number of seconds, from 0 to {MAX_WAIT_SECONDS:.0f}")
    return seconds


def _parse_seconds(text: str) -> float:
    """Return the seconds that `text` says, or nan."""
    try:
        return parse_delay(text)
    except InvalidDelayError:
        return nan


def _parse_switch(text: str) -> bool:
    if text not in _SWITCHES:
        raise RequestError("autoack is true or false")
    return _SWITCHES[text]
