"""Errors of HTTP requests before they are assigned to a route; RESP has no such errors."""

from miniqueue.errors import RequestError


class BadHttpError(RequestError):
    """The request is not valid HTTP."""

    code = "BADREQUEST"


class UnknownPathError(RequestError):
    """404 page not found."""

    code = "NOTFOUND"


class MethodNotAllowedError(RequestError):
    """Method not allowed for this path; see the header Allow."""

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
    """Requests from web pages of other sites are not allowed."""

    code = "BADORIGIN"


class ForeignHostError(RequestError):
    """Invalid host; must be 127.0.0.1, ::1, or localhost."""

    code = "BADHOST"


class NoWebSocketError(RequestError):
    """WebSockets are not supported."""

    code = "NOWEBSOCKET"
