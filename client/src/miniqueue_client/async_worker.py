"""A worker with tasks: like `worker`, for functions that are coroutines.

    async def handle(message):
        await charge(message.payload)

    await AsyncWorker(client, "orders", handle, concurrency=100).run()        # until SIGTERM or SIGINT

One task receives; one task for each message calls the function and settles; one more extends the leases. As in
`worker`, messages that are done at the same time are acknowledged together: the task that sends first lets all tasks
run that are ready, since they may be done in this iteration of the event loop too.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import time_ns

from miniqueue_client.async_client import AsyncClient
from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls.call import Call, Seconds, seconds_of
from miniqueue_client.calls.errors import is_passing
from miniqueue_client.calls.tracing import handling, record_receive
from miniqueue_client.calls.values import Message
from miniqueue_client.errors import ClientError
from miniqueue_client.older_python import create_task, is_cancelled, timeout
from miniqueue_client.work import (
    EXITS,
    PAUSE_SECONDS,
    Work,
    is_plain_ack,
    log,
    messages_by_topic,
    settlement,
    tell_failure,
    tell_settled,
    tell_unsettled,
)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AsyncWorker:
    """Calls a coroutine function for each message of a topic; arguments and outcomes as for `Worker`.

    If the task of `run` is cancelled, so are the functions; their messages are redelivered when their leases expire.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each option of a worker
        self,
        client: AsyncClient,
        topic: str | Sequence[str],
        handle: Callable[[Message], Awaitable[object]],
        *,
        group: str | None = None,
        member: str | None = None,
        concurrency: int = 1,
        lease_seconds: Seconds = 30.0,
        poll_seconds: Seconds = 1.0,
        patterns: Sequence[str] = (),
        sync: bool = False,
    ) -> None:
        self._client = client
        self._handle = handle
        lease, poll = seconds_of(lease_seconds), seconds_of(poll_seconds)
        self._work = Work(topic, group, concurrency, lease, poll, member, patterns, sync)
        self._is_stopping = False
        self._exit: BaseException | None = None
        self._acks = AsyncAckBatcher(self._acknowledge)
        self._changed = asyncio.Condition()

    async def run(self, *, handle_signals: bool = True) -> None:
        """Work until `stop` or, in the main thread, SIGTERM or SIGINT; messages in hand are finished first.

        Args:
          handle_signals: whether SIGTERM and SIGINT stop the worker. False in a program that handles them itself, as a
            web server does: it calls `stop`.

        If the broker is unavailable, the worker waits for it. Raises RefusedError if the broker refuses for good, and
        the SystemExit or KeyboardInterrupt that the function raised.
        """
        async with AsyncClient.of(replace(self._client.address, retries=0)) as receiver:
            extending = asyncio.create_task(self._extend_for_ever())
            try:
                with _stopping_on_signals(self.stop, is_wanted=handle_signals):
                    await self._receive_and_handle(receiver)
            finally:
                extending.cancel()
                await asyncio.wait([extending])
        if self._exit is not None:
            raise self._exit

    def stop(self) -> None:
        """Make `run` return when all messages in hand are done; call it in the thread of the event loop."""
        self._is_stopping = True
        self._notifying = asyncio.ensure_future(self._notify())

    async def _receive_and_handle(self, receiver: AsyncClient) -> None:
        handlers: set[asyncio.Task[None]] = set()
        try:
            while await self._can_take_more():
                for message in await self._receive(receiver):
                    task = create_task(self._work_on(message))
                    handlers.add(task)
                    task.add_done_callback(handlers.discard)
                    task.add_done_callback(self._stop_on_bug)
        except asyncio.CancelledError:
            _cancel(handlers)
            raise
        finally:
            await _finish(handlers)

    def _stop_on_bug(self, task: "asyncio.Task[None]") -> None:
        """Make `run` raise an exception that none of the handlers has raised."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._exit = error
            self.stop()

    async def _can_take_more(self) -> bool:
        """Wait until another message can be taken in hand; return False if the worker is to stop."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_stopping or self._work.free_count)
            return not self._is_stopping

    async def _receive(self, receiver: AsyncClient) -> list[Message]:
        try:
            begun_ns = time_ns()
            messages = await receiver.execute(self._work.next_receive())
            record_receive(self._work.topics, self._work.group, messages, begun_ns, receiver.span_attributes())
        except ClientError as exc:
            if not is_passing(exc):
                raise
            log.warning("cannot receive from %s: %s", self._work.topic, exc)
            await self._pause()
            return []
        for message in messages:
            self._work.begin(message)
        return messages

    async def _pause(self) -> None:
        with suppress(asyncio.TimeoutError):
            async with timeout(PAUSE_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._is_stopping)

    async def _work_on(self, message: Message) -> None:
        result: object = None
        error: BaseException | None = None
        try:
            with handling(message, self._work.group):
                result = await self._handle(message)
        except BaseException as exc:  # any exception: the message must be returned
            if is_cancelled():
                await self._end([message])
                raise
            error = exc
            if isinstance(exc, EXITS):
                self._exit = exc
                self.stop()
        tell_failure(message, error)
        if is_plain_ack(message, result, error):
            try:
                await self._acks.acknowledge(message)
            except asyncio.CancelledError:
                await self._end(self._acks.taken())  # no task sends these now; they are redelivered
                raise
        else:
            await self._settle([message], settlement(message, result, error, sync=self._work.sync))

    async def _acknowledge(self, messages: Sequence[Message]) -> None:
        try:
            for topic, some in messages_by_topic(messages).items():
                await self._settle(some, message_calls.ack(topic, *some, sync=self._work.sync))
        except asyncio.CancelledError:
            await self._end(messages)  # no task sends the others now; they are redelivered
            raise

    async def _settle(self, messages: Sequence[Message], call: Call[list[bool]]) -> None:
        try:
            tell_settled(messages, await self._client.execute(call))
        except Exception as exc:
            tell_unsettled(messages, exc)
        finally:
            await self._end(messages)

    async def _end(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._work.end(message)
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _extend_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._work.extend_every_seconds)
            for call in self._work.extensions():
                with suppress(ClientError):  # the next turn retries; settling reports an expired lease
                    await self._client.execute(call)


class AsyncAckBatcher:
    """Messages of the tasks of a worker that are done and not acknowledged yet.

    Args:
      send: acknowledges messages, and handles every error; never called by two tasks at the same time.
    """

    def __init__(self, send: Callable[[Sequence[Message]], Awaitable[None]]) -> None:
        self._send = send
        self._done: list[Message] = []
        self._is_sending = False

    async def acknowledge(self, message: Message) -> None:
        """Acknowledge a message; on return it is acknowledged, or another task is about to do it."""
        self._done.append(message)
        if self._is_sending:
            return
        self._is_sending = True
        try:
            await asyncio.sleep(0)
            while messages := self.taken():
                await self._send(messages)
        finally:
            self._is_sending = False

    def taken(self) -> list[Message]:
        """Return the messages that no task has sent yet, and remove them, so that no other task sends them."""
        messages, self._done = self._done, []
        return messages


async def _finish(tasks: "set[asyncio.Task[None]]") -> None:
    """Wait for tasks, which remove themselves from the set when they are done; a cancellation cancels them, too."""
    try:
        while tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        _cancel(tasks)
        while tasks:
            await asyncio.wait(tasks)
        raise


def _cancel(tasks: "set[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()


@contextmanager
def _stopping_on_signals(stop: Callable[[], None], *, is_wanted: bool) -> Iterator[None]:
    """Make each of the signals call `stop` while the block runs."""
    if not is_wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
