"""Whole HTTP replies, and the only table from errors to HTTP status; an error's code is defined by its class.

A reply is an ASGI application. Replies without content are created at import, so that sending one costs two calls.

Errors of routes are JSON. Errors that the server itself sends, before a request is assigned to a route, are
problem+json (RFC 9457) with a stable code; `problem` returns their headers and body for any server to send:

    {"type":"about:blank","title":"Request Timeout","status":408,"code":"TIMEOUT"}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from math import ceil
from types import MappingProxyType
from typing import Final, TypeAlias

import orjson
from starlette.types import Message, Receive, Scope, Send

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.errors import (
    DedupMismatchError,
    FullError,
    InternalError,
    LimitReachedError,
    MemoryLimitError,
    MiniqueueError,
    NotAuthenticatedError,
    NothingOutstandingError,
    NotPermittedError,
    PayloadTooLargeError,
    PositionLostError,
    RateLimitError,
    RequestError,
    TooManyAttemptsError,
    UnavailableError,
    UnknownReceiptError,
    UnsupportedEncodingError,
    WrongSecretError,
)
from miniqueue.errors.requests import (
    GroupExistsError,
    GroupInUseError,
    MembersOnlyError,
    MessageStateError,
    NoMembersError,
    NoReplyError,
    NoRequestError,
    RefusedPartError,
    RequesterGoneError,
    SchemaError,
    TopicExistsError,
    UnknownGroupError,
    UnknownMessageError,
    UnknownPartitionError,
    UnknownScheduleError,
    UnknownTaskError,
    UnknownTopicError,
)
from miniqueue.server.asgi.early_errors import (
    BadHttpError,
    ForeignHostError,
    ForeignOriginError,
    LargeHeadersError,
    LateRequestError,
    MethodNotAllowedError,
    NoWebSocketError,
    UnknownPathError,
    UnknownTransferCodingError,
)
from miniqueue.server.asgi.request import ACCOUNT_KEY
from miniqueue.wire.json_lines import error_members

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
JSON_LINES = b"application/x-ndjson"

#: Our extension of ASGI: a message that is a whole reply without a body, for servers that list the extension. It has
#: the members of `http.response.start`. Servers send status and headers unchecked: names must be in lower case.
EMPTY_REPLY = "miniqueue.response.empty"

#: The status of an error is that of the first class in its method resolution order that is listed here.
STATUS: Mapping[type[BaseException], HTTPStatus] = MappingProxyType(
    {
        PayloadTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        UnsupportedEncodingError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        SchemaError: HTTPStatus.UNPROCESSABLE_ENTITY,
        NotAuthenticatedError: HTTPStatus.UNAUTHORIZED,
        WrongSecretError: HTTPStatus.UNAUTHORIZED,
        NotPermittedError: HTTPStatus.FORBIDDEN,
        TooManyAttemptsError: HTTPStatus.TOO_MANY_REQUESTS,
        UnknownTopicError: HTTPStatus.NOT_FOUND,
        TopicExistsError: HTTPStatus.CONFLICT,
        NothingOutstandingError: HTTPStatus.CONFLICT,
        UnknownReceiptError: HTTPStatus.CONFLICT,
        MessageStateError: HTTPStatus.CONFLICT,
        NoRequestError: HTTPStatus.CONFLICT,
        RequesterGoneError: HTTPStatus.GONE,
        PositionLostError: HTTPStatus.GONE,
        NoReplyError: HTTPStatus.GATEWAY_TIMEOUT,
        UnknownMessageError: HTTPStatus.NOT_FOUND,
        UnknownPartitionError: HTTPStatus.NOT_FOUND,
        UnknownScheduleError: HTTPStatus.NOT_FOUND,
        UnknownTaskError: HTTPStatus.NOT_FOUND,
        UnknownGroupError: HTTPStatus.NOT_FOUND,
        GroupExistsError: HTTPStatus.CONFLICT,
        GroupInUseError: HTTPStatus.CONFLICT,
        MembersOnlyError: HTTPStatus.CONFLICT,
        NoMembersError: HTTPStatus.CONFLICT,
        BadHttpError: HTTPStatus.BAD_REQUEST,
        UnknownPathError: HTTPStatus.NOT_FOUND,
        MethodNotAllowedError: HTTPStatus.METHOD_NOT_ALLOWED,
        LateRequestError: HTTPStatus.REQUEST_TIMEOUT,
        LargeHeadersError: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        UnknownTransferCodingError: HTTPStatus.NOT_IMPLEMENTED,
        NoWebSocketError: HTTPStatus.FORBIDDEN,
        ForeignOriginError: HTTPStatus.FORBIDDEN,
        ForeignHostError: HTTPStatus.FORBIDDEN,
        DedupMismatchError: HTTPStatus.UNPROCESSABLE_ENTITY,
        RequestError: HTTPStatus.BAD_REQUEST,
        FullError: HTTPStatus.INSUFFICIENT_STORAGE,
        MemoryLimitError: HTTPStatus.TOO_MANY_REQUESTS,
        RateLimitError: HTTPStatus.TOO_MANY_REQUESTS,
        LimitReachedError: HTTPStatus.INSUFFICIENT_STORAGE,
        UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
        MiniqueueError: HTTPStatus.INTERNAL_SERVER_ERROR,
    }
)
#: Additional headers by status.
_HEADERS: Mapping[HTTPStatus, Headers] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (
            (b"www-authenticate", b'Basic realm="miniqueue", charset="UTF-8"'),
            (b"www-authenticate", b'Bearer realm="miniqueue"'),
        ),
        HTTPStatus.TOO_MANY_REQUESTS: ((b"retry-after", b"60"),),
        HTTPStatus.SERVICE_UNAVAILABLE: ((b"retry-after", b"1"),),
    }
)
#: Memory may be free again as soon as a reply was read or a message settled.
_AGAIN_SOON: Headers = ((b"retry-after", b"1"),)


#: A body that is larger is sent in pieces of this size, if the server shows the account of the connection.
PIECE_BYTES: Final = 256 << 10


class Reply:
    """A status with a whole body; callable as an ASGI application, any number of times."""

    __slots__ = ("_body", "_is_large", "_start", "_whole")

    def __init__(self, status: int, body: bytes = b"", content_type: bytes = b"", headers: Headers = ()) -> None:
        self._start: Message = start_message(
            status, [*_content_type(content_type), (b"content-length", b"%d" % len(body)), *headers]
        )
        self._body: Message = {"type": "http.response.body", "body": body}
        self._is_large = len(body) > PIECE_BYTES
        self._whole: Message | None = None if body else {**self._start, "type": EMPTY_REPLY}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply to a request."""
        empty = self._whole
        if empty is not None and EMPTY_REPLY in (scope.get("extensions") or ()):
            await send(empty)
            return
        await send(self._start)
        if empty is None and scope.get("method") == "HEAD":  # Granian sends a body even then
            await send(_NO_BODY)
        elif self._is_large and (account := scope.get("state", {}).get(ACCOUNT_KEY)) is not None:
            await _send_in_pieces(self._body["body"], account, send)
        else:
            await send(self._body)


async def _send_in_pieces(body: bytes, account: MemoryAccount, send: Send) -> None:
    """Send a large body, charged once: servers copy what they get, and keep it until the client has read it."""
    account.add(Purpose.OUTPUT, len(body))
    try:
        for start in range(0, len(body), PIECE_BYTES):
            end = start + PIECE_BYTES
            await send({"type": "http.response.body", "body": body[start:end], "more_body": end < len(body)})
    finally:
        account.add(Purpose.OUTPUT, -len(body))


def start_message(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    """Return the ASGI message that begins a reply."""
    return {"type": "http.response.start", "status": status, "headers": headers}


async def begin_json_lines(send: Send) -> None:
    """Begin a streamed reply, and send its headers at once.

    ASGI allows a server to keep the headers until the body begins, so this sends an empty first part of the body.
    """
    await send(_JSON_LINES_START)
    await send(_NOTHING_YET)


def _content_type(content_type: bytes) -> Headers:
    """Return the headers for the type of a body, with sniffing off: to a browser, a message may look like a page."""
    return [(b"content-type", content_type), (b"x-content-type-options", b"nosniff")] if content_type else []


_JSON_LINES_START = start_message(HTTPStatus.OK, [*_content_type(JSON_LINES)])
_NO_BODY: Message = {"type": "http.response.body", "body": b""}
_NOTHING_YET: Message = {"type": "http.response.body", "body": b"", "more_body": True}

CREATED = Reply(HTTPStatus.CREATED)
OK = Reply(HTTPStatus.OK)


def not_allowed(allowed_methods: str) -> Reply:
    """Return the reply for a known path with an unknown method; `allowed_methods` are separated by commas."""
    return error_reply(MethodNotAllowedError(), [(b"allow", allowed_methods.encode())])


def json_reply(status: int, content: object, headers: Headers = ()) -> Reply:
    """Return a reply whose body is `content` as JSON."""
    return Reply(status, orjson.dumps(content), JSON, headers)


def error_reply(
    error: MiniqueueError, headers: Headers = (), more: Mapping[str, object] = MappingProxyType({})
) -> Reply:
    """Return the reply for an error: `{"error": text, "code": word}`, then the members of `more`."""
    status = status_of(error)
    added = _HEADERS.get(status, ())
    if isinstance(error, MemoryLimitError):
        added = _AGAIN_SOON
    elif isinstance(error, RateLimitError):
        added = ((b"retry-after", b"%d" % ceil(error.seconds)),)
    return json_reply(status, {**error_members(error), **more}, [*added, *headers])


class AnsweredError(MiniqueueError):
    """An error with which another process has answered."""

    status = HTTPStatus.INTERNAL_SERVER_ERROR

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(text)
        self.status = HTTPStatus(status)
        self.code = code


def status_of(error: MiniqueueError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    if isinstance(error, AnsweredError):
        return error.status
    if isinstance(error, RefusedPartError):
        return status_of_code(error.code)
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


@cache
def status_of_code(code: str) -> HTTPStatus:
    """Return the HTTP status of the errors with a code; of the most general one, if theirs differ."""
    classes = [MiniqueueError]
    for cls in classes:  # which grows meanwhile
        if cls.code == code and cls is not MiniqueueError:
            return next(STATUS[base] for base in cls.__mro__ if base in STATUS)
        classes += cls.__subclasses__()
    return HTTPStatus.INTERNAL_SERVER_ERROR


async def refuse_websocket(scope: Scope, send: Send) -> None:
    """Reject a WebSocket handshake, with an error reply if the server can send one."""
    if "websocket.http.response" not in (scope.get("extensions") or ()):
        await send({"type": "websocket.close"})
        return

    async def send_as_http(message: Message) -> None:
        await send({**message, "type": "websocket." + message["type"]})

    await error_reply(NoWebSocketError())(scope, _no_body, send_as_http)


async def _no_body() -> Message:
    return {"type": "http.disconnect"}


NOT_FOUND = error_reply(UnknownPathError())
INTERNAL_ERROR = error_reply(InternalError())


PROBLEM_JSON = b"application/problem+json"

#: The codes of replies that the server itself sends.
CODES: Mapping[int, str] = MappingProxyType(
    {
        STATUS[error]: error.code
        for error in (
            BadHttpError,
            LateRequestError,
            LargeHeadersError,
            MemoryLimitError,
            UnknownTransferCodingError,
        )
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """Headers and body of an error reply that the server itself sends."""

    headers: list[tuple[bytes, bytes]]
    body: bytes


def problem(status: int) -> Problem:
    """Return the error reply for an HTTP status; its code is `ERR` unless `CODES` has one."""
    title = HTTPStatus(status).phrase
    body = orjson.dumps({"type": "about:blank", "title": title, "status": status, "code": CODES.get(status, "ERR")})
    headers = [
        (b"content-type", PROBLEM_JSON),
        (b"content-length", b"%d" % len(body)),
        (b"x-content-type-options", b"nosniff"),
        *(_AGAIN_SOON if status == HTTPStatus.TOO_MANY_REQUESTS else ()),
    ]
    return Problem(headers, body)
