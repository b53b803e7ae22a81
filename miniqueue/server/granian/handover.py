"""How requests get from Granian's thread to the event loop: together with their bodies, if those are short.

    Granian's thread ─▶ schedule ─ short body ─▶ request it ─▶ it has arrived ─▶ the loop: a task for the application
                                 └ any other ──────────────────────────────────▶ the loop: a task for the application

Granian itself wakes the loop for a request, which requests the body, which wakes the loop again: for a small request,
the way from thread to thread and back is most of the cost. A body that does not arrive is not awaited here for long:
`begin` starts the application anyway, which handles the delay.

Knows the objects of Granian's embedded server; knows neither the application nor the limits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Any, Final, Protocol

from granian import _granian
from starlette.types import ASGIApp, Message, Scope

#: Granian's compiled part; its stubs omit the names that are used here.
NATIVE: Final[Any] = _granian
#: Maximum size of a short body: clients send it in one frame, together with the headers or right after them.
MAX_SHORT_BODY_BYTES = 16_384


class FirstPart(Protocol):
    """The first part of a body: Granian's future, which has one callback and calls it on the loop."""

    def __await__(self) -> "asyncio.Future[Message]": ...

    def add_done_callback(self, callback: Callable[[object], None], *, context: Context) -> None:
        """Call `callback` when the part has arrived."""
        ...


class Channel(Protocol):
    """Granian's interface for an application."""

    def receive(self) -> FirstPart:
        """Request the next part of the body."""
        ...

    def send(self, message: Message) -> Awaitable[None]:
        """Send a part of the reply."""
        ...


class Watcher(Protocol):
    """Granian's object for a request."""

    scope: Scope
    proto: Channel

    def taskref(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to the task that answers the request."""
        ...

    def done(self) -> None:
        """End the request."""
        ...

    def err(self, error: BaseException) -> None:
        """End the request with an error, which Granian logs."""
        ...


class Handover:
    """Starts the application for each request.

    Args:
      app: the application that answers the requests.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        #: Requests that wait for their bodies, in their order; Granian's thread adds them.
        self._waiting: dict[_Exchange, None] = {}

    def scheduler(self, loop: asyncio.AbstractEventLoop) -> object:
        """Return the scheduler that Granian calls, on its thread, with each request."""
        scheduler = NATIVE.CallbackScheduler(loop, None, None, None, None)
        scheduler._schedule_fn = partial(self.schedule, loop, scheduler._ctx)
        return scheduler

    def schedule(self, loop: asyncio.AbstractEventLoop, context: Context, watcher: Watcher) -> None:
        """Start a request on the loop, in a copy of the context; called on Granian's thread."""
        exchange = _Exchange(self._app, watcher, self._waiting)
        if has_short_body(watcher.scope):
            exchange.begin_with_body(context)
        else:
            loop.call_soon_threadsafe(exchange.begin, context=context)

    def begin(self) -> None:
        """Start every request that waits for its body."""
        for exchange in list(self._waiting):
            exchange.begin()


class _Exchange:
    """One request, which is started once."""

    __slots__ = ("_app", "_first", "_proto", "_waiting", "_watcher")

    def __init__(self, app: ASGIApp, watcher: Watcher, waiting: "dict[_Exchange, None]") -> None:
        self._app = app
        self._watcher: Watcher | None = watcher
        self._proto = watcher.proto
        self._waiting = waiting
        self._first: FirstPart | None = None

    def begin_with_body(self, context: Context) -> None:
        """Start the request when the first part of its body has arrived; called on Granian's thread."""
        first = self._first = self._proto.receive()
        first.add_done_callback(self.begin, context=context)
        # Last: from now on, the loop can start the request, which uses the first part.
        self._waiting[self] = None

    def begin(self, _: object = None) -> None:
        """Start the application, unless it has been started; it receives the body itself."""
        watcher, self._watcher = self._watcher, None
        self._waiting.pop(self, None)
        if watcher is not None:
            watcher.taskref(asyncio.get_running_loop().create_task(self._answer(watcher)))

    async def _answer(self, watcher: Watcher) -> None:
        scope = watcher.scope
        scope.update(root_path="", state={})
        try:
            await self._app(scope, self._receive, self._proto.send)  # type: ignore[arg-type] # it is awaitable
        except BaseException as exc:  # Granian logs it and answers
            watcher.err(exc)
        else:
            watcher.done()

    def _receive(self) -> FirstPart:
        first, self._first = self._first, None
        return self._proto.receive() if first is None else first


def has_short_body(scope: Scope) -> bool:
    """Whether the client will send a short body without waiting for an interim reply."""
    fields: dict[bytes, bytes] = dict(scope["headers"])
    length = fields.get(b"content-length", b"")
    is_short = len(length) <= 5 and length.isdigit() and 0 < int(length) <= MAX_SHORT_BODY_BYTES
    return is_short and b"expect" not in fields
