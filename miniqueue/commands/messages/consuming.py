"""The loop of a consumer: receive, handle, settle. Nothing is acknowledged before it was handled.

    receive ─▶ handle ─┬─ done ─────▶ ACK     messages that were received together, together, but at least every second
                       └─ a failure ▶ NACK    with the failure as the reason

    a signal, or a reader that has ended ─▶ what was handled is acknowledged, and the rest is returned

While the broker cannot be reached, a consumer that has received from it before waits for it. Leases are extended while
messages are handled.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from miniqueue.commands.messages.stopping import Stopping
from miniqueue.commands.shell.connecting import BrokerClient
from miniqueue.commands.shell.outage import Outage
from miniqueue.commands.shell.texts import counted
from miniqueue.errors import ClientError, ConnectError, DisconnectedError, ServerError
from miniqueue_client import Message

#: How long a receive waits; a signal can take as long to be obeyed.
POLL_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 1.0
#: Leases are extended, and messages that are done acknowledged, this many times in the duration of a lease.
TURNS_PER_LEASE: Final = 3
_MAX_TURN_SECONDS: Final = 1.0
_MAX_DOUBLINGS: Final = 12
_MAX_RETRY_SECONDS: Final = 3600.0
_PASSING: Final = frozenset({"READONLY", "DRAINING"})

#: Handles a message, and can extend its lease meanwhile; returns why it failed, "" if it did not, None if the message
#: is settled already. What it raises ends the consumer.
Handle = Callable[[Message, Callable[[], None]], str | None]


def accept_all(_message: Message) -> bool:
    """Accept every message."""
    return True


def never_over() -> bool:
    """Return that there can be more messages."""
    return False


@dataclass(frozen=True, slots=True)
class Order:
    """What to consume, and how much.

    Attributes:
      topic: the topic.
      group: the group to read as; None: the default group.
      member: the member of the group; None: none.
      lease_seconds: how long each message is leased.
      max_count: maximum number of messages; None: no end.
      batch_count: maximum number of messages that are received together.
      ends_when_empty: whether to end when there are no messages.
      retry_seconds: delay of messages that failed; None: as the topic is set.
      accepts: whether a message is handled; others are acknowledged.
      is_over: whether there are no more messages to accept; asked when none of a batch was.
    """

    topic: str
    group: str | None = None
    member: str | None = None
    lease_seconds: float = 30.0
    max_count: int | None = None
    batch_count: int = 1
    ends_when_empty: bool = False
    retry_seconds: float | None = None
    accepts: Callable[[Message], bool] = accept_all
    is_over: Callable[[], bool] = never_over


@dataclass(slots=True)
class Consumer:
    """A consumer at work.

    Attributes:
      client: a client of the broker.
      order: what to consume.
      handle: handles a message; it is given what extends the lease meanwhile.
      stopping: whether a signal has arrived.
      warn: says something to a person.
      outage: says that the broker is lost.
      monotonic: the clock.
      handled: number of messages that were handled.
      failed_count: number of times that a message failed.
    """

    client: BrokerClient
    order: Order
    handle: Handle
    stopping: Stopping
    warn: Callable[[str], None]
    outage: Outage
    monotonic: Callable[[], float] = time.monotonic
    handled: int = 0
    failed_count: int = 0

    def run(self) -> None:
        """Consume until the order is done, or a signal arrives; raises ClientError, and what `handle` raises."""
        has_received = False
        while not self.stopping.is_asked and self._next_count():
            try:
                messages = self._receive()
            except ClientError as exc:
                if not (has_received and _is_passing(exc)):
                    raise
                self.outage.say(exc)
                self.stopping.wait(PAUSE_SECONDS)
                continue
            has_received = True
            self.outage.end()
            was_accepted = self._handle_all(messages)
            if self.order.ends_when_empty and not was_accepted and (not messages or self.order.is_over()):
                return

    def _next_count(self) -> int:
        most = self.order.max_count
        return self.order.batch_count if most is None else min(self.order.batch_count, most - self.handled)

    def _receive(self) -> list[Message]:
        return self.client.receive(
            self.order.topic,
            group=self.order.group,
            member=self.order.member,
            count=self._next_count(),
            wait_seconds=0 if self.order.ends_when_empty else POLL_SECONDS,
            lease_seconds=self.order.lease_seconds,
        )

    def _handle_all(self, messages: Sequence[Message]) -> bool:
        """Handle messages; return whether one of them was accepted."""
        remaining, done, was_accepted = deque(messages), list[Message](), False
        turn_seconds = min(self.order.lease_seconds / TURNS_PER_LEASE, _MAX_TURN_SECONDS)
        turned_at = self.monotonic()
        try:
            while remaining and not self.stopping.is_asked:
                message = remaining[0]
                if self.order.accepts(message):
                    was_accepted = True
                    self._handle_one(message, done)
                else:
                    done.append(message)
                remaining.popleft()
                if (now := self.monotonic()) - turned_at >= turn_seconds:
                    turned_at = now
                    self._acknowledge(done)
                    self._extend(remaining)
        finally:
            self._acknowledge(done)
            self._return(remaining, "", None)
        return was_accepted

    def _handle_one(self, message: Message, done: list[Message]) -> None:
        failure = self.handle(message, lambda: self._extend([message]))
        self.handled += 1
        if failure is None:
            return
        if not failure:
            done.append(message)
            return
        self.failed_count += 1
        self.warn(f"message {message.id} of {message.topic}: {failure}; returned")
        self._return([message], failure, self._retry_seconds(message))

    def _retry_seconds(self, message: Message) -> float | None:
        """Return the delay of a message that failed; None: as the topic is set.

        If the consumer ends when there are no messages, each failure doubles the delay, so that there is an end.
        """
        if self.order.retry_seconds is not None or not self.order.ends_when_empty:
            return self.order.retry_seconds
        return min(2.0 ** min(message.counts.nacks, _MAX_DOUBLINGS), _MAX_RETRY_SECONDS)

    def _acknowledge(self, done: list[Message]) -> None:
        messages, done[:] = list(done), []
        if not messages:
            return
        try:
            results = self.client.ack(self.order.topic, *messages)
        except ClientError as exc:
            self.warn(
                f"{counted(len(messages), 'message')} could not be acknowledged, and will be delivered again: {exc}"
            )
            return
        for message, is_settled in zip(messages, results, strict=True):
            if not is_settled:
                self.warn(f"message {message.id} of {message.topic}: its lease has expired; it can be delivered again")

    def _return(self, messages: Sequence[Message] | deque[Message], reason: str, seconds: float | None) -> None:
        if not messages:
            return
        try:
            self.client.nack(self.order.topic, *messages, reason=reason, seconds=seconds)
        except ClientError as exc:
            self.warn(f"{counted(len(messages), 'message')} will be returned when the lease expires: {exc}")

    def _extend(self, messages: Sequence[Message] | deque[Message]) -> None:
        if not messages:
            return
        try:
            self.client.extend(self.order.topic, *messages, seconds=self.order.lease_seconds)
        except ClientError as exc:
            self.warn(f"leases could not be extended: {exc}")


def _is_passing(error: ClientError) -> bool:
    if isinstance(error, ServerError):
        return error.code in _PASSING
    return isinstance(error, ConnectError | DisconnectedError)
