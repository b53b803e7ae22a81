"""What a consumer that stays can say about itself, on every protocol.

prefetch=100  group=audit  member=worker-1
"""

from collections.abc import Mapping
from typing import NamedTuple

from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.members import check_member
from miniqueue.core.prefetch import parse_prefetch


class StreamOptions(NamedTuple):
    """How to consume.

    Attributes:
      prefetch: how many messages may be out at a time; None for the plain form, one at a time and without receipts.
      group: whose messages.
      member: of the group, which has partitions of its own; b"" for none.
    """

    prefetch: int | None = None
    group: bytes = DEFAULT_GROUP_NAME
    member: bytes = b""


def parse_stream_options(given: Mapping[str, bytes]) -> StreamOptions:
    """Return what `given` says; other names in it do not matter.

    Raises InvalidPrefetchError or InvalidMemberError; who makes the group checks its name.
    """
    return StreamOptions(
        parse_prefetch(given["prefetch"]) if "prefetch" in given else None,
        given.get("group", DEFAULT_GROUP_NAME),
        check_member(given["member"]) if "member" in given else b"",
    )
