"""What is wrong with a look into a topic; more of `miniqueue.errors`."""

from miniqueue.errors import RequestError


class UnknownMessageError(RequestError):
    """There is no such message: it never was, or was acknowledged."""

    code = "NOMESSAGE"


class InvalidOptionError(RequestError):
    """The value of an option is none that it may have."""

    code = "BADOPTION"


class UnknownPartitionError(RequestError):
    """The topic has no such partition."""

    code = "NOPARTITION"
