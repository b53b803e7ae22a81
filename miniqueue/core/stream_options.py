"""What a consumer that stays can say about itself, on every protocol.

prefetch=100  group=audit  member=worker-1  session=60
"""

from collections.abc import Mapping
from typing import NamedTuple

from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.members import DEFAULT_SESSION_SECONDS, check_member, parse_session
from miniqueue.core.prefetch import parse_prefetch
from miniqueue.errors import RequestError


class StreamOptions(NamedTuple):
    """How to consume.

    Attributes:
      prefetch: how many messages may be out at a time; None for the plain form, one at a time and without receipts.
      group: whose messages.
      member: of the group, which has partitions of its own; b"" for none.
      session_seconds: how long a member may hold messages and settle none.
    """

    prefetch: int | None = None
    group: bytes = DEFAULT_GROUP_NAME
    member: bytes = b""
    session_seconds: float = DEFAULT_SESSION_SECONDS


def parse_stream_options(given: Mapping[str, bytes]) -> StreamOptions:
    """Return what `given` says; other names in it do not matter.

    Raises InvalidPrefetchError, InvalidMemberError, InvalidDelayError for the session, or RequestError for a session
    without a member; who makes the group checks its name.
    """
    if "session" in given and "member" not in given:
        raise RequestError("session without a member; name the MEMBER too, or leave SESSION out")
    return StreamOptions(
        parse_prefetch(given["prefetch"]) if "prefetch" in given else None,
        given.get("group", DEFAULT_GROUP_NAME),
        check_member(given["member"]) if "member" in given else b"",
        parse_session(given["session"]) if "session" in given else DEFAULT_SESSION_SECONDS,
    )
