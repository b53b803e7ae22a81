"""The requests that Granian hands over: when their bodies end, how long they may take, and who is still being answered.

    Granian ──▶ Requests ──▶ the application
                   once a second: a body that does not come is answered 408, and the application sees its client leave

Knows ASGI, and what Granian makes of it; knows neither its settings nor what is served.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniqueue.server.h2guard.deadlines import LOOK_SECONDS, BodyDeadline
from miniqueue.server.problems import problem
from miniqueue.server.refusals import Reason, Refusals
from miniqueue.server.replies import INTERNAL_ERROR, start_message

#: For Granian's thread to write what was answered; it does not tell when it has.
LAST_WORDS_SECONDS = 0.2


class Requests:
    """An application, and who is still being answered by it.

    What a client still sends after an early reply is read for a moment: Granian resets the stream of a request that was
    not read, in one piece with the reply, and curl 7.88 then forgets the reply.

    Args:
      app: answers them.
      refusals: where bodies that came too late are counted.
    """

    def __init__(self, app: ASGIApp, refusals: Refusals) -> None:
        self._app = app
        self._refusals = refusals
        self._tasks: dict[_Request, asyncio.Task[object] | None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have one request answered."""
        request = _Request(scope, receive, send)
        self._tasks[request] = asyncio.current_task()
        try:
            await self._app(scope, request.receive, request.send)
            if request.is_late and not request.has_reply:
                self._refusals.count(Reason.SLOW_BODY, scope["client"])
                await _answer_late(send)
            elif not request.is_read:
                await _discard(receive)
        except Exception:
            if not request.has_reply:
                await INTERNAL_ERROR(scope, receive, send)
            raise  # Granian logs it
        finally:
            del self._tasks[request]

    async def watch(self, begin: Callable[[], None]) -> None:
        """Look for bodies that do not come, until cancelled; `begin` has requests begin that still wait for theirs."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            begin()
            for request in list(self._tasks):
                request.look(loop.time())

    async def wait(self, timeout_seconds: float) -> None:
        """Wait until those are answered who are under way now."""
        await asyncio.sleep(0)  # for those who have just begun
        if tasks := [task for task in self._tasks.values() if task is not None]:
            await asyncio.wait(tasks, timeout=timeout_seconds)


class _Request:
    """The body of a request, whether all of it was read, and whether its reply has begun.

    Granian tells the end of a body only when it is asked once more, and every answer goes from thread to thread. A
    request that has told its length needs no such question.
    """

    __slots__ = (
        "_deadline",
        "_reader",
        "_receive",
        "_received_bytes",
        "_send",
        "_unread_bytes",
        "has_reply",
        "is_late",
        "is_read",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._unread_bytes = _content_length(scope)
        self._received_bytes = 0
        self._reader: asyncio.Task[object] | None = None
        self._deadline: BodyDeadline | None = None
        self.is_read = False
        self.is_late = False
        self.has_reply = False

    async def receive(self) -> Message:
        if self.is_late:
            return {"type": "http.disconnect"}
        reader = self._reader = asyncio.current_task()
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if not self.is_late or reader is None:
                raise
            reader.uncancel()
            return {"type": "http.disconnect"}
        self._reader = None
        if message["type"] == "http.request":
            size_bytes = len(message["body"])
            self._received_bytes += size_bytes
            self._unread_bytes -= size_bytes
            if self._unread_bytes == 0:
                message["more_body"] = False
        self.is_read = not message.get("more_body", False)
        return message

    def send(self, message: Message) -> Awaitable[None]:
        self.has_reply = True
        return self._send(message)

    def look(self, now_seconds: float) -> None:
        """Wake whoever waits for a body that takes too long."""
        if self.is_read or self.is_late or self.has_reply or self._reader is None:
            return
        if self._deadline is None:
            self._deadline = BodyDeadline()
        if self._deadline.is_over(self._received_bytes, 0, now_seconds):
            self.is_late = True
            self._reader.cancel()


def _content_length(scope: Scope) -> int:
    """Return how long the body is to be, or -1."""
    return int(dict(scope["headers"]).get(b"content-length", -1))


async def _answer_late(send: Send) -> None:
    reply = problem(HTTPStatus.REQUEST_TIMEOUT)
    await send(start_message(HTTPStatus.REQUEST_TIMEOUT, reply.headers))
    await send({"type": "http.response.body", "body": reply.body})


async def _discard(receive: Receive) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            while (await receive()).get("more_body", False):
                pass
