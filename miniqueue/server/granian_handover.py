"""How requests get from Granian's thread to the event loop: with their bodies in hand, where those are short.

    Granian's thread ─▶ schedule ─ short body ─▶ ask for it ─▶ it is there ─▶ the loop: a task for the application
                                 └ any other ─────────────────────────────▶ the loop: a task for the application

Granian itself wakes the loop for a request, which asks for the body, which wakes the loop once more: for a small one
the way from thread to thread and back is most of what it costs. A body that does not come is not waited for here for
long: `begin` starts the application all the same, and what is done about that is its affair.

Knows what Granian's embedded server hands over; knows neither the application nor the limits.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from functools import partial
from typing import Any, Final, Protocol

from granian import _granian
from starlette.types import ASGIApp, Message, Scope

#: Granian's compiled part; its stubs leave out what is used here.
NATIVE: Final[Any] = _granian
#: What a client sends in one frame with the headers, or right behind them.
MAX_SHORT_BODY_BYTES = 16_384


class FirstPart(Protocol):
    """The first part of a body: Granian's future, which knows one callback and calls it on the loop."""

    def __await__(self) -> "asyncio.Future[Message]": ...

    def add_done_callback(self, callback: Callable[[object], None], *, context: Context) -> None:
        """Have `callback` called when it is there."""
        ...


class Channel(Protocol):
    """What Granian has an application talk to."""

    def receive(self) -> FirstPart:
        """Ask for the next part of the body."""
        ...

    def send(self, message: Message) -> Awaitable[None]:
        """Send a part of the reply."""
        ...


class Watcher(Protocol):
    """A request of Granian's."""

    scope: Scope
    proto: Channel

    def taskref(self, task: asyncio.Task[None]) -> None:
        """Keep the task that answers it."""
        ...

    def done(self) -> None:
        """End it."""
        ...

    def err(self, error: BaseException) -> None:
        """End it with an error, which is logged."""
        ...


class Handover:
    """Starts the application for each request.

    Args:
      app: answers them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: dict[_Exchange, None] = {}  # for their bodies, in their order; Granian's thread adds to it

    def scheduler(self, loop: asyncio.AbstractEventLoop) -> object:
        """Return what Granian calls, from its thread, with each request."""
        scheduler = NATIVE.CallbackScheduler(loop, None, None, None, None)
        scheduler._schedule_fn = partial(self.schedule, loop, scheduler._ctx)
        return scheduler

    def schedule(self, loop: asyncio.AbstractEventLoop, context: Context, watcher: Watcher) -> None:
        """Have a request begin on the loop, in a copy of the context; on Granian's thread."""
        exchange = _Exchange(self._app, watcher, self._waiting)
        if has_short_body(watcher.scope):
            exchange.begin_with_body(context)
        else:
            loop.call_soon_threadsafe(exchange.begin, context=context)

    def begin(self) -> None:
        """Have every request begin that waits for its body."""
        for exchange in list(self._waiting):
            exchange.begin()


class _Exchange:
    """One request, which begins once."""

    __slots__ = ("_app", "_first", "_proto", "_waiting", "_watcher")

    def __init__(self, app: ASGIApp, watcher: Watcher, waiting: "dict[_Exchange, None]") -> None:
        self._app = app
        self._watcher: Watcher | None = watcher
        self._proto = watcher.proto
        self._waiting = waiting
        self._first: FirstPart | None = None

    def begin_with_body(self, context: Context) -> None:
        """Begin when the first part of the body is there; on Granian's thread, which alone brings it."""
        first = self._first = self._proto.receive()
        first.add_done_callback(self.begin, context=context)
        self._waiting[self] = None  # not before: then the loop may have it begin at once, and it takes the first part

    def begin(self, _: object = None) -> None:
        """Have the application answer; from now on, it is awake when the body is there."""
        watcher, self._watcher = self._watcher, None
        self._waiting.pop(self, None)
        if watcher is not None:
            watcher.taskref(asyncio.get_running_loop().create_task(self._answer(watcher)))

    async def _answer(self, watcher: Watcher) -> None:
        scope = watcher.scope
        scope.update(root_path="", state={})
        try:
            await self._app(scope, self._receive, self._proto.send)  # type: ignore[arg-type] # awaitable, as it must be
        except BaseException as exc:  # Granian logs it, and answers
            watcher.err(exc)
        else:
            watcher.done()

    def _receive(self) -> FirstPart:
        first, self._first = self._first, None
        return self._proto.receive() if first is None else first


def has_short_body(scope: Scope) -> bool:
    """Tell whether the client is about to send a short body, whatever is said to it until then."""
    fields: dict[bytes, bytes] = dict(scope["headers"])
    length = fields.get(b"content-length", b"")
    is_short = len(length) <= 5 and length.isdigit() and 0 < int(length) <= MAX_SHORT_BODY_BYTES
    return is_short and b"expect" not in fields
