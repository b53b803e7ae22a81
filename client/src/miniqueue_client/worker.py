"""A worker with threads: receives messages, calls a function for each, and settles by the outcome, until it is stopped.

    def handle(message):
        if not charge(message.payload):
            raise Delay(60)

    Worker(client, "orders", handle, concurrency=4).run()        # until SIGTERM or SIGINT

The thread that calls `run` receives. Other threads call the function and settle; one more thread extends the leases.
Messages that are done at about the same time are acknowledged by one request, without a thread for it:

    a thread is done ─▶ the list ─▶ no thread sends: it sends the list, and what is added meanwhile, until it is empty
                                    another sends: it continues with its next message

The busier a worker is, the more messages one request acknowledges; a single message does not wait.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from time import time_ns
from types import FrameType

from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls.call import Call, Seconds, seconds_of
from miniqueue_client.calls.errors import is_passing
from miniqueue_client.calls.tracing import handling, record_receive
from miniqueue_client.calls.values import Message
from miniqueue_client.client import Client
from miniqueue_client.errors import ClientError
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


class Worker:
    """Calls a function for each message of a topic.

    When the function returns, its message is acknowledged; if the message is a request, bytes or a str that the
    function returns are the reply. If the function raises an exception, the message returns to the front of the topic,
    after the topic's retry delays if it has any; `Delay` and `Reject` decide otherwise, and `sys.exit` also ends the
    worker. The function can be called again with the same message: if the broker or this process dies, or if a lease
    could not be extended in time.

    Args:
      client: the client, which all threads of the worker share.
      topic: the topic, or several; they need not exist yet.
      handle: the function to call with each message.
      group: the group to read as; None: the default group.
      member: the name of this worker as a member of the group, which has partitions of its own; each worker needs its
        own name. None: workers compete for all partitions.
      concurrency: maximum number of messages in hand, each in a thread.
      lease_seconds: how long each message is leased; the lease is extended while the function runs.
      poll_seconds: how long a receive waits; a stop with nothing in hand can take this long.
      patterns: the beginnings of the names of more topics, each followed by `*`, see `Client.receive_any`.
      sync: whether each settle, except a reply, waits until it is on the disk: after that, not even a power failure
        repeats the message. Messages that are acknowledged together share one sync.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each option of a worker
        self,
        client: Client,
        topic: str | Sequence[str],
        handle: Callable[[Message], object],
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
        self._is_over = False
        self._exit: BaseException | None = None
        self._acks = AckBatcher(self._acknowledge)
        # A reentrant lock: a signal handler can call `stop` while this thread holds it.
        self._changed = threading.Condition(threading.RLock())

    def run(self, *, handle_signals: bool = True) -> None:
        """Work until `stop` or, in the main thread, SIGTERM or SIGINT; messages in hand are finished first.

        Args:
          handle_signals: whether SIGTERM and SIGINT stop the worker. False in a program that handles them itself, as a
            web server does: it calls `stop`.

        If the broker is unavailable, the worker waits for it. Raises RefusedError if the broker refuses for good, and
        the SystemExit or KeyboardInterrupt that the function raised.
        """
        receiver = Client.of(replace(self._client.address, retries=0))  # so that a stop need not wait for retries
        with (
            receiver,
            _stopping_on_signals(self.stop, is_wanted=handle_signals),
            self._extending(),
            ThreadPoolExecutor(self._work.concurrency, "miniqueue-worker") as threads,
        ):
            while self._can_take_more():
                for message in self._receive(receiver):
                    threads.submit(self._work_on, message)
        if self._exit is not None:
            raise self._exit

    def stop(self) -> None:
        """Make `run` return when all messages in hand are done; for any thread, and for signal handlers."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def _can_take_more(self) -> bool:
        """Wait until another message can be taken in hand; return False if the worker is to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopping or self._work.free_count)
            return not self._is_stopping

    def _receive(self, receiver: Client) -> list[Message]:
        try:
            begun_ns = time_ns()
            messages = receiver.execute(self._work.next_receive())
            record_receive(self._work.topics, self._work.group, messages, begun_ns, receiver.span_attributes())
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
            with handling(message, self._work.group):
                result = self._handle(message)
        except BaseException as exc:  # any exception: the message must be returned
            error = exc
            if isinstance(exc, EXITS):
                self._exit = exc
                self.stop()
        tell_failure(message, error)
        if is_plain_ack(message, result, error):
            self._acks.acknowledge(message)
        else:
            self._settle([message], settlement(message, result, error, sync=self._work.sync))

    def _acknowledge(self, messages: Sequence[Message]) -> None:
        for topic, some in messages_by_topic(messages).items():
            self._settle(some, message_calls.ack(topic, *some, sync=self._work.sync))

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
                calls = self._work.extensions()
            for call in calls:
                with suppress(ClientError):  # the next turn retries; settling reports an expired lease
                    self._client.execute(call)


class AckBatcher:
    """Messages of the threads of a worker that are done and not acknowledged yet.

    Args:
      send: acknowledges messages, and handles every error; never called by two threads at the same time.
    """

    def __init__(self, send: Callable[[Sequence[Message]], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._done: list[Message] = []
        self._is_sending = False

    def acknowledge(self, message: Message) -> None:
        """Acknowledge a message; on return it is acknowledged, or another thread is about to do it."""
        with self._lock:
            self._done.append(message)
            if self._is_sending:
                return
            self._is_sending = True
        try:
            while messages := self._taken():
                self._send(messages)
        except BaseException:
            self._is_sending = False  # so that the next thread sends
            raise

    def _taken(self) -> list[Message]:
        with self._lock:
            messages, self._done = self._done, []
            self._is_sending = bool(messages)
            return messages


@contextmanager
def _stopping_on_signals(stop: Callable[[], None], *, is_wanted: bool) -> Iterator[None]:
    """Make the first signal call `stop` while the block runs; the next signal has its former handler."""
    if not is_wanted or threading.current_thread() is not threading.main_thread():
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
