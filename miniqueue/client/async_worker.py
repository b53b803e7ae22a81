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

from miniqueue.client.async_client import AsyncClient
from miniqueue.client.calls import messages as message_calls
from miniqueue.client.calls.call import Call
from miniqueue.client.calls.errors import is_passing
from miniqueue.client.calls.values import Message
from miniqueue.client.work import (
    EXITS,
    PAUSE_SECONDS,
    Work,
    is_plain_ack,
    log,
    settlement,
    tell_failure,
    tell_settled,
    tell_unsettled,
)
from miniqueue.errors import ClientError

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class AsyncWorker:
    """Calls a coroutine function for each message of a topic; arguments and outcomes as for `Worker`.

    If the task of `run` is cancelled, so are the functions; their messages are redelivered when their leases expire.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each option of a worker
        self,
        client: AsyncClient,
        topic: str,
        handle: Callable[[Message], Awaitable[object]],
        *,
        group: str | None = None,
        member: str | None = None,
        concurrency: int = 1,
        lease_seconds: float = 30.0,
        poll_seconds: float = 1.0,
    ) -> None:
        self._client = client
        self._handle = handle
        self._work = Work(topic, group, concurrency, lease_seconds, poll_seconds, member)
        self._is_stopping = False
        self._exit: BaseException | None = None
        self._acks = AsyncAckBatcher(self._acknowledge)
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Work until `stop` or, in the main thread, SIGTERM or SIGINT; messages in hand are finished first.

        If the broker is unavailable, the worker waits for it. Raises RefusedError if the broker refuses for good, and
        the SystemExit or KeyboardInterrupt that the function raised.
        """
        async with AsyncClient.of(replace(self._client.address, retries=0)) as receiver:
            extending = asyncio.create_task(self._extend_for_ever())
            try:
                with _stopping_on_signals(self.stop):
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
        failure: ClientError | None = None
        async with asyncio.TaskGroup() as handlers:
            while await self._can_take_more():
                try:
                    messages = await self._receive(receiver)
                except ClientError as exc:  # raised below: inside the group it would cancel the tasks
                    failure = exc
                    break
                for message in messages:
                    handlers.create_task(self._work_on(message))
        if failure is not None:
            raise failure

    async def _can_take_more(self) -> bool:
        """Wait until another message can be taken in hand; return False if the worker is to stop."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_stopping or self._work.free_count)
            return not self._is_stopping

    async def _receive(self, receiver: AsyncClient) -> list[Message]:
        try:
            messages = await receiver.execute(self._work.next_receive())
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
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._is_stopping)

    async def _work_on(self, message: Message) -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = await self._handle(message)
        except BaseException as exc:  # any exception: the message must be returned
            if _is_cancelled():
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
            await self._settle([message], settlement(message, result, error))

    async def _acknowledge(self, messages: Sequence[Message]) -> None:
        await self._settle(messages, message_calls.ack(self._work.topic, *messages))

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
            call = self._work.extension()
            with suppress(ClientError):  # the next turn retries; settling reports an expired lease
                if call is not None:
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


def _is_cancelled() -> bool:
    """Whether this task was cancelled, rather than something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def _stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Make each of the signals call `stop` while the block runs."""
    if threading.current_thread() is not threading.main_thread():
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
