"""Requests over HTTP that are answered with JSON, and those whose body is one JSON document of moderate size."""

from collections.abc import Awaitable, Callable

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError
from miniqueue.server.http_publish import read_body
from miniqueue.server.replies import Reply, error_reply, json_reply


class JsonEndpoint:
    """Answers a request with JSON, or with the error that making it raises."""

    def __init__(self, make_content: Callable[[Scope], Awaitable[object]]) -> None:
        self._make_content = make_content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            reply = json_reply(200, await self._make_content(scope))
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)


#: Does what a request asks for with a document, None for an empty body; raises MiniqueueError.
Answer = Callable[[Scope, object], Awaitable[Reply]]


class JsonBodyEndpoint:
    """Reads the body of each request, and has it answered."""

    def __init__(self, answer: Answer, max_body_bytes: int) -> None:
        self._answer = answer
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client leaves before its end."""
        try:
            body = await self._read(receive)
            if body is None:
                return
            reply = await self._answer(scope, _parsed(body))
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        try:
            return await read_body(receive, self._max_body_bytes)
        except PayloadTooLargeError as exc:  # a document is no message
            raise InvalidLineError(f"the body is over {self._max_body_bytes} bytes") from exc


def _parsed(body: bytes) -> object:
    try:
        content: object = orjson.loads(body) if body else None
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the body is not JSON") from exc
    return content
