"""A worker with threads: receives, calls a function for each message, settles by what it did, until it is stopped.

    def handle(message):
        if not charge(message.payload):
            raise Delay(60)

    Worker(client, "orders", handle, concurrency=4).run()        # until SIGTERM or SIGINT

The thread that calls `run` receives; others call the function and settle, what they are done with at the same time
together; one more extends the leases.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType

from miniqueue.client import message_calls
from miniqueue.client.blocking import Client
from miniqueue.client.call import Call
from miniqueue.client.message import Message
from miniqueue.client.refusals import is_passing
from miniqueue.client.settling import Together
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


class Worker:
    """Works through a topic.

    When the function returns, its message is acknowledged; bytes or a str that it returns are the reply, where somebody
    has asked for one. An exception returns it to the front, or after the topic's
    retry delays; `Delay` and `Reject` say otherwise, and `sys.exit` also ends the worker. It may be
    called with the same message again: when the broker or this process dies, or when a lease could not be extended in
    time.

    Args:
      client: threads of the worker share it.
      topic: it need not exist yet.
      handle: what is called with each message.
      group: who reads; without it the default group.
      member: of the group, with partitions of its own; one name for each worker. Without it workers compete for all.
      concurrency: how many messages are worked on at a time, each in a thread.
      lease_seconds: of each message; it is extended for as long as the function runs.
      poll_seconds: how long a receive waits, and so how long a stop may take that finds nothing in hand.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each option of a worker
        self,
        client: Client,
        topic: str,
        handle: Callable[[Message], object],
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
        self._is_over = False
        self._exit: BaseException | None = None
        self._together = Together(self._acknowledge)
        # With a lock that its holder may take again: a signal's handler calls `stop` in whatever line it meets.
        self._changed = threading.Condition(threading.RLock())

    def run(self) -> None:
        """Work until `stop`, or, in the main thread, SIGTERM or SIGINT; what is in hand is finished first.

        A broker that is gone for a while is waited for. Raises RefusedError when it refuses for good, and the
        SystemExit or KeyboardInterrupt that a function has raised.
        """
        receiver = Client.of(replace(self._client.address, retries=0))  # a stop need not wait for the retries
        with (
            receiver,
            _stopping_on_signals(self.stop),
            self._extending(),
            ThreadPoolExecutor(self._work.concurrency, "miniqueue-worker") as threads,
        ):
            while self._has_hand_free():
                for message in self._receive(receiver):
                    threads.submit(self._work_on, message)
        if self._exit is not None:
            raise self._exit

    def stop(self) -> None:
        """Have `run` return when what is in hand is done; from any thread, or a signal's handler."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def _has_hand_free(self) -> bool:
        """Wait for a hand to be free; return False when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._work.free_count)
            return not self._is_stopping

    def _receive(self, receiver: Client) -> list[Message]:
        try:
            messages = receiver.execute(self._work.next_receive())
        except ClientError as exc:
            if not is_passing(exc):
                raise
            log.warning("cannot receive from %s: %s", self._work.topic, exc)
            self._pause()
            return []
        with self._changed:
            for message in messages:
                self._work.begin(message)
        return messages

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping, PAUSE_SECONDS)

    def _work_on(self, message: Message) -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = self._handle(message)
        except BaseException as exc:  # whatever it is: the message comes back
            error = exc
            if isinstance(exc, EXITS):
                self._exit = exc
                self.stop()
        tell_failure(message, error)
        if is_plain_ack(message, result, error):
            self._together.acknowledge(message)
        else:
            self._settle([message], settlement(message, result, error))

    def _acknowledge(self, messages: Sequence[Message]) -> None:
        self._settle(messages, message_calls.ack(self._work.topic, *messages))

    def _settle(self, messages: Sequence[Message], call: Call[list[bool]]) -> None:
        try:
            tell_settled(messages, self._client.execute(call))
        except Exception as exc:
            tell_unsettled(messages, exc)
        finally:
            self._end(messages)

    def _end(self, messages: Sequence[Message]) -> None:
        with self._changed:
            for message in messages:
                self._work.end(message)
            self._changed.notify_all()

    @contextmanager
    def _extending(self) -> Iterator[None]:
        """Extend leases while the block runs."""
        thread = threading.Thread(target=self._extend_until_over, name="miniqueue-extender", daemon=True)
        self._is_over = False
        thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            thread.join()

    def _extend_until_over(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._is_over, self._work.extend_every_seconds):
                    return
                call = self._work.extension()
            with suppress(ClientError):  # the next turn tries again; the settle tells if it was too late
                if call is not None:
                    self._client.execute(call)


@contextmanager
def _stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first of the signals call `stop` while the block runs; the next one does what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop()

    for number in STOP_SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
