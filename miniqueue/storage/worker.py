"""A thread that does blocking calls for an event loop, one after another, in the order they came.

It knows nothing of what it runs. It replaces `loop.run_in_executor`, whose second future, lock and semaphore
cost 10 to 20 µs more a call, when an fdatasync is only some 120 µs:

    loop:    submit ──► SimpleQueue ──► thread: function(*args) ──► call_soon_threadsafe ──► loop: set_result

The thread needs the interpreter lock to take a call and to report it. A loop that never rests gives the lock
up only for moments too short for another thread to wake, and each of them starts the thread's wait anew. What
ends it is the switch interval, when that is shorter than the loop's callbacks: with callbacks of 0.1 ms a write
took seconds at an interval of 0.1 ms, and 0.36 ms at 0.02 ms. The process should therefore
`sys.setswitchinterval(0.00002)`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from miniqueue.errors import StoreClosedError

T = TypeVar("T")

_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Worker:
    """One thread with a queue of calls."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._is_stopped = False
        self._has_ended = False  # set by the thread's own last job
        # A daemon: a process that exits without closing its store must not hang here.
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Queue `function(*args)` and return the future of its outcome.

        Cancelling the future forgets the outcome; the call itself is made all the same.

        Raises:
          StoreClosedError: the worker was stopped.
        """
        if self._is_stopped:
            raise StoreClosedError
        return self._enqueue(function, *args)

    def refuse(self) -> None:
        """Refuse every call that is not under way, those already queued included."""
        self._is_stopped = True

    async def stop(self, last: Callable[[], None] | None = None) -> None:
        """Let the call under way finish, refuse those behind it, make the call `last`, end the thread.

        To be called once.
        """
        self.refuse()
        await self._enqueue(self._end, last)
        self._thread.join()

    def _enqueue(self, function: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put((loop, future, function, args))
        return future

    def _work(self) -> None:
        while not self._has_ended:
            self._do(*self._jobs.get())

    def _do(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        function: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        result, error = None, None
        try:
            if self._is_stopped and function != self._end:
                raise StoreClosedError
            result = function(*args)
        except BaseException as exc:  # whatever it is: the caller must learn of it, the thread must live on
            error = exc
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, future, result, error)

    def _end(self, last: Callable[[], None] | None) -> None:
        self._has_ended = True
        if last is not None:
            last()


def failed(error: Exception) -> "asyncio.Future[Any]":
    """Return the future of a call that could not be made."""
    future = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


def _settle(future: "asyncio.Future[Any]", result: object, error: BaseException | None) -> None:
    if future.done():  # cancelled by its waiter
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
