"""A worker with tasks: as `worker`, for functions that are coroutines.

    async def handle(message):
        await charge(message.payload)

    await AsyncWorker(client, "orders", handle, concurrency=100).run()        # until SIGTERM or SIGINT

One task receives; one for each message calls the function and settles, what is done at the same time together; one
more extends the leases.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from miniqueue.client import message_calls
from miniqueue.client.asynchronous import AsyncClient
from miniqueue.client.call import Call
from miniqueue.client.message import Message
from miniqueue.client.refusals import is_passing
from miniqueue.client.settling import TogetherInTasks
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
    """Works through a topic; arguments and outcomes are those of `Worker`.

    When its task is cancelled, so are the functions; their messages come again when their leases are over.
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
        self._together = TogetherInTasks(self._acknowledge)
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Work until `stop`, or, in the main thread, SIGTERM or SIGINT; what is in hand is finished first.

        A broker that is gone for a while is waited for. Raises RefusedError when it refuses for good, and the
        SystemExit or KeyboardInterrupt that a function has raised.
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
        """Have `run` return when what is in hand is done; in the thread of the event loop."""
        self._is_stopping = True
        self._notifying = asyncio.ensure_future(self._notify())

    async def _receive_and_handle(self, receiver: AsyncClient) -> None:
        failure: ClientError | None = None
        async with asyncio.TaskGroup() as handlers:
            while await self._has_hand_free():
                try:
                    messages = await self._receive(receiver)
                except ClientError as exc:  # raised below: a group that is left with an error cancels its tasks
                    failure = exc
                    break
                for message in messages:
                    handlers.create_task(self._work_on(message))
        if failure is not None:
            raise failure

    async def _has_hand_free(self) -> bool:
        """Wait for a hand to be free; return False when it is time to stop."""
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
        except BaseException as exc:  # whatever it is: the message comes back
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
                await self._together.acknowledge(message)
            except asyncio.CancelledError:
                await self._end(self._together.taken())  # which nobody sends now: they come again
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
            with suppress(ClientError):  # the next turn tries again; the settle tells if it was too late
                if call is not None:
                    await self._client.execute(call)


def _is_cancelled() -> bool:
    """Tell whether it is the task that was cancelled, and not something that it has awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def _stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first of the signals call `stop` while the block runs."""
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
