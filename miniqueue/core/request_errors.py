"""What is wrong with a request that wants a reply, or with a reply; more of `miniqueue.errors`."""

from miniqueue.errors import RequestError, UnavailableError


class NoReplyError(UnavailableError):
    """Nobody has replied in time; the message is of no use to anybody any more."""

    code = "TIMEOUT"


class NoRequestError(RequestError):
    """The message asks for no reply; it is still leased."""

    code = "NOREQUEST"


class RequesterGoneError(RequestError):
    """Nobody waits for the reply any more; the message is acknowledged."""

    code = "GONE"
