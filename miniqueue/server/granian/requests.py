"""Requests from Granian: the ends and deadlines of their bodies, and which requests are in progress.

    Granian ──▶ Requests ──▶ the application
                   once a second: a late body is answered 408; to the application, its client disconnects

Knows ASGI and Granian's form of it; knows neither its settings nor the applications.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniqueue.broker.runtime.accounts import Memory, MemoryAccount, Purpose
from miniqueue.server.asgi.refusals import Reason, Refusals
from miniqueue.server.asgi.replies import INTERNAL_ERROR, problem, start_message
from miniqueue.server.hypercorn.limits import CHECK_SECONDS, BodyDeadline

#: Time for Granian's thread to write the last replies; it does not report when it has.
LAST_WORDS_SECONDS = 0.2
#: Bodies up to this size are not charged: most requests end at once. Replies cannot be charged, as Granian does not
#: report when it has written them; they count as `other` in the account of the process.
CHARGED_BYTES = 64 << 10


class Requests:
    """An application, and its requests in progress.

    After an early reply, the rest of the body is read for a moment: Granian resets the stream of an unread request
    together with the reply, and curl 7.88 then loses the reply.

    Args:
      app: the application that answers the requests.
      refusals: counts bodies that were late.
      memory: the accounts of the memory that clients use.
    """

    def __init__(self, app: ASGIApp, refusals: Refusals, memory: Memory | None = None) -> None:
        self._app = app
        self._refusals = refusals
        self._memory = memory or Memory()
        self._tasks: dict[_Request, asyncio.Task[object] | None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = _Request(scope, receive, send, self._memory)
        self._tasks[request] = asyncio.current_task()
        try:
            if _is_ambiguous(scope):
                await _refuse(scope, send)
                return
            await self._app(scope, request.receive, request.send)
            if request.is_late and not request.has_reply:
                self._refusals.count(Reason.SLOW_BODY, scope["client"])
                await _answer(send, HTTPStatus.REQUEST_TIMEOUT)
            elif not request.has_reply:  # the body is not valid, or the client has gone: Granian reports both alike
                await _refuse(scope, send)
            elif not request.is_read:
                await _discard(receive)
        except Exception:
            if not request.has_reply:
                await INTERNAL_ERROR(scope, receive, send)
            raise  # Granian logs it
        finally:
            del self._tasks[request]
            if request.received_bytes > CHARGED_BYTES:
                request.give_back()

    async def watch(self, begin: Callable[[], None]) -> None:
        """Check for late bodies until cancelled; `begin` starts the requests that still wait for their bodies."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            begin()
            for request in list(self._tasks):
                request.check_deadline(loop.time())

    async def wait(self, timeout_seconds: float) -> None:
        """Wait until the requests that are in progress now are answered."""
        await asyncio.sleep(0)  # lets requests start that were just handed over
        if tasks := [task for task in self._tasks.values() if task is not None]:
            await asyncio.wait(tasks, timeout=timeout_seconds)


class _Request:
    """The body of a request, whether it was read completely, and whether its reply has begun.

    Granian reports the end of a body only on another `receive`, which goes from thread to thread. With a known length,
    that call is not necessary.
    """

    __slots__ = (
        "_deadline",
        "_payer",
        "_reader",
        "_receive",
        "_send",
        "_unread_bytes",
        "has_reply",
        "is_late",
        "is_read",
        "received_bytes",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, memory: Memory) -> None:
        self._receive = receive
        self._send = send
        self._payer = memory, scope  # which are looked at only if the body is large
        self._unread_bytes = _content_length(scope)
        self.received_bytes = 0
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
            self.received_bytes += size_bytes
            self._unread_bytes -= size_bytes
            if self.received_bytes > CHARGED_BYTES:
                self._charge(size_bytes)
            if self._unread_bytes == 0:
                message["more_body"] = False
        self.is_read = not message.get("more_body", False)
        return message

    def send(self, message: Message) -> Awaitable[None]:
        self.has_reply = True
        return self._send(message)

    def _account(self) -> MemoryAccount:
        """Return the account of the client's address: a request can belong to a user only when its body is read."""
        memory, scope = self._payer
        return memory.of_address((scope.get("client") or "?")[0])

    def _charge(self, size_bytes: int) -> None:
        """Charge a part of the body until the request ends: the application may keep it."""
        is_first = self.received_bytes - size_bytes <= CHARGED_BYTES
        self._account().add(Purpose.INPUT, self.received_bytes if is_first else size_bytes)

    def give_back(self) -> None:
        """Give back what was charged for the body."""
        self._account().add(Purpose.INPUT, -self.received_bytes)

    def check_deadline(self, now_seconds: float) -> None:
        """Wake the task that waits for a late body."""
        if self.is_read or self.is_late or self.has_reply or self._reader is None:
            return
        if self._deadline is None:
            self._deadline = BodyDeadline()
        if self._deadline.is_over(self.received_bytes, 0, now_seconds):
            self.is_late = True
            self._reader.cancel()


def _content_length(scope: Scope) -> int:
    """Return the announced length of the body, or -1."""
    return int(dict(scope["headers"]).get(b"content-length", -1))


def _is_ambiguous(scope: Scope) -> bool:
    """Whether a proxy could read a request in another way than Granian, which accepts it."""
    if scope["http_version"] == "1.1" and [name for name, _ in scope["headers"]].count(b"host") != 1:
        return True
    return scope["method"] in ("CONNECT",)


async def _refuse(scope: Scope, send: Send) -> None:
    """Refuse a request, and with HTTP/1.1 all that follows it on its connection."""
    is_http1 = scope["http_version"].startswith("1")
    await _answer(send, HTTPStatus.BAD_REQUEST, [(b"connection", b"close")] if is_http1 else [])


async def _answer(send: Send, status: HTTPStatus, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    reply = problem(status)
    await send(start_message(status, [*reply.headers, *headers]))
    await send({"type": "http.response.body", "body": reply.body})


async def _discard(receive: Receive) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            while (await receive()).get("more_body", False):
                pass
