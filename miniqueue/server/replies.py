"""Whole HTTP replies, prepared once, and the one table from errors to HTTP status; the code is that of the error.

A reply is an ASGI application of its own. Success replies are made at import, so that answering a request
costs two calls and nothing else.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias

import orjson
from starlette.types import Message, Receive, Scope, Send

from miniqueue.core.dedup_window import DedupMismatchError
from miniqueue.core.group_errors import GroupExistsError, GroupInUseError, UnknownGroupError
from miniqueue.core.look_errors import UnknownMessageError, UnknownPartitionError
from miniqueue.core.members import MembersOnlyError, NoMembersError
from miniqueue.core.request_errors import NoReplyError, NoRequestError, RequesterGoneError
from miniqueue.core.schedule import UnknownScheduleError
from miniqueue.core.topic_errors import TopicExistsError, UnknownTopicError
from miniqueue.errors import (
    FullError,
    InternalError,
    LimitReachedError,
    MiniqueueError,
    NotAuthenticatedError,
    NothingOutstandingError,
    NotPermittedError,
    PayloadTooLargeError,
    RequestError,
    TooManyAttemptsError,
    UnavailableError,
    UnknownReceiptError,
    UnsupportedEncodingError,
    WrongSecretError,
)
from miniqueue.server.early_errors import (
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

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
JSON_LINES = b"application/x-ndjson"

#: An extension of ASGI, and the one message of a reply without a body where the server knows it; it is otherwise the
#: one that begins a reply. What is in it goes out as it is: a status, names in lower case, values of ours.
EMPTY_REPLY = "miniqueue.response.empty"

#: The status of an error is that of the first of its classes, most special first, which stands here.
STATUS: Mapping[type[BaseException], HTTPStatus] = MappingProxyType(
    {
        PayloadTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        UnsupportedEncodingError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        NotAuthenticatedError: HTTPStatus.UNAUTHORIZED,
        WrongSecretError: HTTPStatus.UNAUTHORIZED,
        NotPermittedError: HTTPStatus.FORBIDDEN,
        TooManyAttemptsError: HTTPStatus.TOO_MANY_REQUESTS,
        UnknownTopicError: HTTPStatus.NOT_FOUND,
        TopicExistsError: HTTPStatus.CONFLICT,
        NothingOutstandingError: HTTPStatus.CONFLICT,
        UnknownReceiptError: HTTPStatus.CONFLICT,
        NoRequestError: HTTPStatus.CONFLICT,
        RequesterGoneError: HTTPStatus.GONE,
        NoReplyError: HTTPStatus.GATEWAY_TIMEOUT,
        UnknownMessageError: HTTPStatus.NOT_FOUND,
        UnknownPartitionError: HTTPStatus.NOT_FOUND,
        UnknownScheduleError: HTTPStatus.NOT_FOUND,
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
        LimitReachedError: HTTPStatus.INSUFFICIENT_STORAGE,
        UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
        MiniqueueError: HTTPStatus.INTERNAL_SERVER_ERROR,
    }
)
#: What a client is told beside the status.
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


class Reply:
    """A status with a whole body; callable as an ASGI application, any number of times."""

    __slots__ = ("_body", "_start", "_whole")

    def __init__(self, status: int, body: bytes = b"", content_type: bytes = b"", headers: Headers = ()) -> None:
        self._start: Message = start_message(
            status, [*_content_type(content_type), (b"content-length", b"%d" % len(body)), *headers]
        )
        self._body: Message = {"type": "http.response.body", "body": body}
        self._whole: Message | None = None if body else {**self._start, "type": EMPTY_REPLY}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with this."""
        if self._whole is not None and EMPTY_REPLY in (scope.get("extensions") or ()):
            await send(self._whole)
        else:
            await send(self._start)
            await send(_NO_BODY if scope.get("method") == "HEAD" else self._body)  # Granian would send it


def start_message(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    """Return the ASGI message that begins a reply."""
    return {"type": "http.response.start", "status": status, "headers": headers}


async def begin_json_lines(send: Send) -> None:
    """Begin a reply that goes on, and let its headers go at once.

    ASGI allows a server to keep them until the body begins, so the body begins, with nothing.
    """
    await send(_JSON_LINES_START)
    await send(_NOTHING_YET)


def _content_type(content_type: bytes) -> Headers:
    """Return the type of a body, which no browser is to doubt: a message may look like a page."""
    return [(b"content-type", content_type), (b"x-content-type-options", b"nosniff")] if content_type else []


_JSON_LINES_START = start_message(HTTPStatus.OK, [*_content_type(JSON_LINES)])
_NO_BODY: Message = {"type": "http.response.body", "body": b""}
_NOTHING_YET: Message = {"type": "http.response.body", "body": b"", "more_body": True}

CREATED = Reply(HTTPStatus.CREATED)
OK = Reply(HTTPStatus.OK)


def not_allowed(allowed_methods: str) -> Reply:
    """Return the reply to a request whose path is known and whose method is not; the methods stand between commas."""
    return error_reply(MethodNotAllowedError(), [(b"allow", allowed_methods.encode())])


def json_reply(status: int, content: object, headers: Headers = ()) -> Reply:
    """Return a reply whose body is `content` as JSON."""
    return Reply(status, orjson.dumps(content), JSON, headers)


def error_reply(
    error: MiniqueueError, headers: Headers = (), more: Mapping[str, object] = MappingProxyType({})
) -> Reply:
    """Return the reply that tells a client what went wrong: `{"error": text, "code": word}`, then `more` members."""
    status = status_of(error)
    content = {"error": str(error), "code": error.code, **more}
    return json_reply(status, content, [*_HEADERS.get(status, ()), *headers])


def status_of(error: MiniqueueError) -> HTTPStatus:
    """Return the HTTP status that fits an error."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


async def refuse_websocket(scope: Scope, send: Send) -> None:
    """Answer a request to change to WebSocket, as an error where the server can send one."""
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
