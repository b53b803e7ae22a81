"""Names of a group's members, and what is wrong with a request to be one."""

from miniqueue.core.names import check_topic
from miniqueue.errors import InvalidTopicError, RequestError


class InvalidMemberError(RequestError):
    """The name of a member must be 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADMEMBER"


class MembersOnlyError(RequestError):
    """The group has members, each with partitions of its own: name one with MEMBER."""

    code = "MEMBERS"


class NoMembersError(RequestError):
    """The group has consumers that are no members, which compete for all partitions; they must leave first."""

    code = "MEMBERS"


def check_member(name: bytes) -> bytes:
    """Return `name` if it can name a member: what can name a topic; raises InvalidMemberError."""
    try:
        return check_topic(name)
    except InvalidTopicError as exc:
        raise InvalidMemberError from exc
