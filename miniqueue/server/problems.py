"""Replies to what is not yet a request for a route: problem+json with a stable code (RFC 9457).

    {"type":"about:blank","title":"Request Timeout","status":408,"code":"TIMEOUT"}

The routes have replies of their own (`replies`). Knows no server; headers and body are for whichever sends them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType

import orjson

from miniqueue.server.early_errors import BadHttpError, LargeHeadersError, LateRequestError, UnknownTransferCodingError
from miniqueue.server.replies import STATUS

PROBLEM_JSON = b"application/problem+json"

CODES: Mapping[int, str] = MappingProxyType(
    {
        STATUS[error]: error.code
        for error in (BadHttpError, LateRequestError, LargeHeadersError, UnknownTransferCodingError)
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """The headers and the body of one reply."""

    headers: list[tuple[bytes, bytes]]
    body: bytes


def problem(status: int) -> Problem:
    """Return the reply with an HTTP status; one without a code of its own gets `ERR`."""
    title = HTTPStatus(status).phrase
    body = orjson.dumps({"type": "about:blank", "title": title, "status": status, "code": CODES.get(status, "ERR")})
    headers = [
        (b"content-type", PROBLEM_JSON),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
    ]
    return Problem(headers, body)
