"""Endpoints for the usual forms of requests: an act with a prepared reply, a JSON reply, a JSON body."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from miniqueue.errors import InvalidLineError, MiniqueueError, PayloadTooLargeError
from miniqueue.server.asgi.replies import OK, Reply, error_reply, json_reply
from miniqueue.server.asgi.request import listening, read_body, unless_gone


class ActEndpoint:
    """Calls `act` for each request, then sends `reply`, or the error that `act` raises."""

    def __init__(self, act: Callable[[Scope], Awaitable[object]], reply: Reply = OK) -> None:
        self._act = act
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply = self._reply
        try:
            await self._act(scope)
        except MiniqueueError as error:
            reply = error_reply(error)
        await reply(scope, receive, send)


class JsonEndpoint:
    """Answers each request with the result of `make_content` as JSON, or with the error that it raises.

    A GET ends when its client disconnects: otherwise clients that ask and leave could pile up searches and lists.
    """

    def __init__(self, make_content: Callable[[Scope], Coroutine[Any, Any, object]]) -> None:
        self._make_content = make_content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        reply: Reply | None
        if scope["method"] == "GET":
            reply = await unless_gone(receive, self._reply(scope))
        else:
            reply = await self._reply(scope)
        if reply is not None:
            await reply(scope, receive, send)

    async def _reply(self, scope: Scope) -> Reply:
        try:
            return json_reply(200, await self._make_content(scope))
        except MiniqueueError as error:
            return error_reply(error)


class LongEndpoint:
    """Sends the reply that `answer` returns, or the error that it raises, and discards the body of each request.

    Args:
      answer: carries out a request; its first argument returns whether the client still waits for the reply.
    """

    def __init__(self, answer: Callable[[Callable[[], bool], Scope], Awaitable[Reply]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with listening(receive) as is_there:
            try:
                reply = await self._answer(is_there, scope)
            except MiniqueueError as error:
                reply = error_reply(error)
            await reply(scope, receive, send)


#: Executes a request with its JSON document, None for an empty body; raises MiniqueueError.
Answer = Callable[[Scope, object], Awaitable[Reply]]


class JsonBodyEndpoint:
    """Reads the JSON body of each request, and sends the reply that `answer` returns."""

    def __init__(self, answer: Answer, max_body_bytes: int) -> None:
        self._answer = answer
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, unless the client disconnects before its end."""
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
        except PayloadTooLargeError as exc:
            # Its text names -max-message-size, which does not limit these bodies.
            raise InvalidLineError(f"body too large; must be at most {self._max_body_bytes} bytes") from exc


def _parsed(body: bytes) -> object:
    try:
        content: object = orjson.loads(body) if body else None
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("invalid body; must be JSON") from exc
    return content
