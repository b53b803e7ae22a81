"""What is wrong with an HTTP request before a route has it, in words of its own; RESP has no such errors."""

from miniqueue.errors import RequestError


class BadHttpError(RequestError):
    """The request breaks the rules of HTTP."""

    code = "BADREQUEST"


class UnknownPathError(RequestError):
    """404 page not found."""

    code = "NOTFOUND"


class MethodNotAllowedError(RequestError):
    """The path has no such method; the header Allow names those that it has."""

    code = "METHODNOTALLOWED"


class LateRequestError(RequestError):
    """The request took too long to arrive."""

    code = "TIMEOUT"


class LargeHeadersError(RequestError):
    """The headers are over the limit (-max-header-size), or too many."""

    code = "BIGHEADERS"


class UnknownTransferCodingError(RequestError):
    """The transfer coding is not chunked."""

    code = "NOTIMPLEMENTED"


class ForeignOriginError(RequestError):
    """Not for web pages of other sites."""

    code = "BADORIGIN"


class ForeignHostError(RequestError):
    """Only for requests to 127.0.0.1 or localhost."""

    code = "BADHOST"


class NoWebSocketError(RequestError):
    """There are no WebSockets here."""

    code = "NOWEBSOCKET"
