"""What is wrong with a request for a group; more of `miniqueue.errors`."""

from miniqueue.errors import RequestError


class InvalidGroupError(RequestError):
    """The name of a group must be 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADGROUP"


class UnknownGroupError(RequestError):
    """The topic has no such group."""

    code = "NOGROUP"


class GroupExistsError(RequestError):
    """The topic has such a group already."""

    code = "GROUPEXISTS"


class GroupInUseError(RequestError):
    """The group cannot be deleted: it has consumers, or is the only one of its topic."""

    code = "GROUPINUSE"
