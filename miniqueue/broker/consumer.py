"""A consumer of a topic's default group: one message at a time, over whatever protocol."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Lease
from miniqueue.errors import MessageOutstandingError, MiniqueueError, NothingOutstandingError

if TYPE_CHECKING:
    from miniqueue.broker.broker import Broker


class Consumer:
    """Asks for messages and settles them.

                  request()                      deliver(lease)
        IDLE ─────────────────▶ WAITING ────────────────────────▶ HOLDING
          ▲                                                          │
          └────────────── ack() nack() back() dack() ────────────────┘

    `request` may call `deliver` before it returns. `fail` is called when the topic turns out to be unreadable;
    the consumer is idle then. `close` returns what is held to the front of the topic.
    """

    __slots__ = ("_broker", "_cursor", "_is_closed", "_lease", "deliver", "fail", "topic")

    def __init__(
        self,
        broker: "Broker",
        topic: Topic,
        deliver: Callable[[Lease], None],
        fail: Callable[[MiniqueueError], None],
    ) -> None:
        self._broker = broker
        self._cursor: GroupCursor | None = None
        self._lease: Lease | None = None
        self._is_closed = False
        self.topic = topic
        self.deliver = deliver
        self.fail = fail
        topic.consumer_count += 1

    @property
    def is_waiting(self) -> bool:
        """Whether the next message of the topic may go to this consumer."""
        return self in self.topic.waiters

    def request(self) -> None:
        """Ask for the next message.

        Raises:
          MessageOutstandingError: one is held, or has been asked for.
          StorageError: the topic cannot be read.
        """
        if self._lease is not None or self.is_waiting:
            raise MessageOutstandingError
        self._broker.serve(self)

    def ack(self) -> None:
        """Settle the message: it is done.

        Raises (this and the three below):
          NothingOutstandingError: no message is held, or it ended with its topic.
        """
        cursor, lease = self._release()
        cursor.ack(lease)
        self._broker.settled(self.topic, is_returned=False)

    def nack(self) -> None:
        """Return the message to the front of the topic."""
        cursor, lease = self._release()
        cursor.nack(lease)
        self._broker.settled(self.topic, is_returned=True)

    def back(self) -> None:
        """Return the message to the back of the topic."""
        cursor, lease = self._release()
        cursor.back(lease)
        self._broker.settled(self.topic, is_returned=True)

    def dack(self, delay_seconds: float) -> None:
        """Return the message to the front on the first tick after `delay_seconds`.

        Raises:
          InvalidDelayError: the delay is negative, not a number or too far away; the message is still held.
        """
        due_at_ms = self._broker.due_at_ms(delay_seconds)
        cursor, lease = self._release()
        cursor.dack(lease, due_at_ms)
        self._broker.settled(self.topic, is_returned=True)

    def close(self) -> None:
        """Stop waiting, and return what is held to the front; safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self.topic.waiters.pop(self, None)
        self.topic.consumer_count -= 1
        self._broker.left(self.topic, self._cursor, self._lease)
        self._lease = self._cursor = None

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease and pass it on; the broker calls this."""
        self._cursor = cursor
        self._lease = lease
        self.deliver(lease)

    def _release(self) -> tuple[GroupCursor, Lease]:
        cursor, lease = self._cursor, self._lease
        if cursor is None or lease is None:
            raise NothingOutstandingError
        self._cursor = self._lease = None
        return cursor, lease
