"""A RESP connection after SUBSCRIBE: messages out as bulk strings, one word in for each.

    C: SUBSCRIBE topic
    S: $5 first
    C: ACK                      or NACK, BACK, DACK [seconds]
    S: +OK
    S: $6 second

An error leaves the message where it is: it can still be settled. PING, QUIT and RESET work as always.
"""

from collections.abc import Callable

from miniqueue.broker import Broker, Consumer
from miniqueue.core.delay import parse_delay
from miniqueue.core.lease import Lease
from miniqueue.errors import MiniqueueError, NothingOutstandingError, UnknownCommandError
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

DEFAULT_DELAY_SECONDS = 1.0


class Stream:
    """Carries out what arrives while the connection is subscribed.

    Args:
      broker: gives the messages.
      topic: to consume from; need not exist.
      reply: queues bytes behind all replies before them.
      flush: writes them.
      otherwise: carries out the words that are not about messages.
    """

    def __init__(
        self,
        broker: Broker,
        topic: bytes,
        reply: Callable[[bytes], None],
        flush: Callable[[], None],
        otherwise: dict[bytes, Callable[[Command], bytes]],
    ) -> None:
        self.topic = topic
        self._consumer: Consumer = broker.consumer(topic, self._deliver, self._fail)
        self._reply = reply
        self._flush = flush
        self._otherwise = otherwise

    def start(self) -> None:
        """Ask for the first message; raises StorageError, and is closed then, when the topic cannot be read."""
        try:
            self._consumer.request()
        except MiniqueueError:
            self.close()
            raise

    def close(self) -> None:
        """Return what is held to the front."""
        self._consumer.close()

    def execute(self, command: Command) -> bytes:
        """Carry out one command and return its reply; raises MiniqueueError."""
        word = command[0].upper()
        if word in self._otherwise:
            return self._otherwise[word](command)
        if word not in _SETTLES:
            raise UnknownCommandError("invalid command" if len(command) > 1 else "invalid ack command")
        if len(command) > 1 and (word != b"DACK" or len(command) > 2):
            raise UnknownCommandError("invalid command")
        return self._settle(word, command)

    def _settle(self, word: bytes, command: Command) -> bytes:
        try:
            _SETTLES[word](self._consumer, command)
        except NothingOutstandingError as exc:
            if self._consumer.is_waiting:
                raise
            self._reply(replies.error(exc.code, str(exc)))  # the message ended with its topic: on to the next
        else:
            self._reply(replies.OK)
        self._consumer.request()
        return b""

    def _deliver(self, lease: Lease) -> None:
        self._reply(replies.bulk(lease.payloads[0]))
        self._flush()

    def _fail(self, error: MiniqueueError) -> None:
        self._reply(replies.error(error.code, str(error)))
        self._flush()


def _dack(consumer: Consumer, command: Command) -> None:
    consumer.dack(parse_delay(command[1].decode("utf-8", "replace")) if len(command) > 1 else DEFAULT_DELAY_SECONDS)


_SETTLES: dict[bytes, Callable[[Consumer, Command], None]] = {
    b"ACK": lambda consumer, _: consumer.ack(),
    b"NACK": lambda consumer, _: consumer.nack(),
    b"BACK": lambda consumer, _: consumer.back(),
    b"DACK": _dack,
}
