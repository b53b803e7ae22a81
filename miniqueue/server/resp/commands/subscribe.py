"""A RESP connection after SUBSCRIBE: the broker sends messages, the client settles them.

    C: SUBSCRIBE topic                    C: SUBSCRIBE topic PREFETCH 2
    S: first                              S: ["1", first, []]
    C: ACK                                S: ["2", second, []]
    S: +OK                                C: ACK 1 2
    S: second                             S: +OK
                                          S: ["3", third, ["nacks", 1]]

NACK, BACK and DACK [seconds] are used like ACK. With PREFETCH they name the receipts of messages; each message is an
array of the receipt, the message, and how often it was returned, by cause. DELAY seconds and REASON text can follow a
NACK and its receipts. After an error the messages are still leased and can be settled. REPLY [receipt] payload
acknowledges a message and sends the reply to the requester. PING, QUIT and RESET work as in any connection. Without
PREFETCH, commands can name the topic: ACK topic, DACK topic seconds.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from miniqueue.broker import Broker, Consumer
from miniqueue.broker.consume.consumer import Rest
from miniqueue.broker.leases.listing import HeldMessage
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.receipts import parse_receipts
from miniqueue.core.message.message import NEVER_RETURNED, Counts
from miniqueue.core.message.numerals import numeral_runs
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.consume import StreamOptions
from miniqueue.core.options.durations import parse_seconds
from miniqueue.errors import MiniqueueError, NothingOutstandingError, UnknownCommandError, UnknownReceiptError
from miniqueue.errors.requests import RequesterGoneError
from miniqueue.server.views.clients import Reading
from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_arguments import nack_options_of
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import RESP2
from miniqueue.wire.stream_deliveries import resp_described

#: The delay of a DACK that names none.
DEFAULT_DELAY_SECONDS = 1.0


class Output(NamedTuple):
    """How a stream replies.

    Attributes:
      reply: queues bytes after all earlier replies.
      send: queues bytes after all earlier replies, and writes them.
      answer_later: holds the connection until work has made the reply.
    """

    reply: Callable[[bytes], None]
    send: Callable[[bytes], None]
    answer_later: Callable[[Coroutine[Any, Any, bytes]], bytes]


class Stream:
    """Carries out the commands of a subscribed connection.

    Args:
      broker: delivers the messages.
      topic: topic to consume from; need not exist.
      options: how to consume.
      output: how to reply.
      others: the commands that are not about messages, by name in capitals.
      end: closes the connection after the last reply.
    """

    is_subscription = True

    def __init__(
        self,
        broker: Broker,
        topic: bytes,
        options: StreamOptions,
        *,
        output: Output,
        others: dict[bytes, Callable[[Command], bytes]],
        end: Callable[[], None],
    ) -> None:
        self.topic = topic
        self._requests = broker.requests
        self._leases_of = broker.leases.of_consumer
        self._has_receipts = options.prefetch is not None
        self._consumer: Consumer = broker.stream(topic, options, self._deliver, self._fail)
        self._answer = b""  # the reply to the command that is being carried out
        self._reply, self._send, self._answer_later = output
        self._others = others
        self._end = end

    @property
    def reading(self) -> Reading:
        """What the stream reads."""
        group, member = self._consumer.group, self._consumer.member
        return Reading(whole_of(self.topic), group.name, b"" if member is None else member.name)

    @property
    def held_count(self) -> int:
        """Number of messages that the stream has, and has not settled."""
        return self._consumer.held_count

    def start(self) -> None:
        """Request the first message; if the topic cannot be read, close the stream and raise StorageError."""
        try:
            self._consumer.request()
        except MiniqueueError:
            self.close()
            raise

    def leases(self) -> list[HeldMessage]:
        """Return the messages that are held; raises UnavailableError."""
        return self._leases_of(self._consumer)

    def close(self) -> None:
        """Return the leased messages to the front of the topic."""
        self._consumer.close()

    def execute(self, command: Command) -> bytes:
        """Carry out one command and return its reply; raises MiniqueueError."""
        word = command[0].upper()
        settle = _SETTLES.get(word)
        if settle is not None:
            return self._settle(settle, self._without_topic(command))
        if word == b"REPLY":
            return self._settle(self._reply_with, command[1:])
        if word in self._others:
            return self._others[word](command)
        raise UnknownCommandError("invalid command" if len(command) > 1 else "invalid ack command")

    def _without_topic(self, command: Command) -> list[bytes]:
        """Return the arguments of a settle without the topic, which clients of OPQ name although a stream has one."""
        if len(command) > 1 and not self._has_receipts and command[1] == self.topic:
            own_count = 1 if command[0].upper() == b"DACK" else 0
            if len(command) == 2 + own_count:
                return command[2:]
        return command[1:]

    def _settle(self, settle: "_Settle", arguments: list[bytes]) -> bytes:
        answer = replies.OK
        try:
            rest = settle(self._consumer, arguments, self._has_receipts)
            if rest is not None:
                return self._answer_later(self._settle_rest(rest))
        except (NothingOutstandingError, UnknownReceiptError, RequesterGoneError) as exc:
            if self._consumer.is_waiting:
                raise
            answer = replies.error(exc.code, str(exc))  # a message may have ended with its topic: continue
        return self._go_on(answer)

    async def _settle_rest(self, rest: Coroutine[Any, Any, None]) -> bytes:
        answer = replies.OK
        try:
            await rest
        except UnknownReceiptError as exc:
            answer = replies.error(exc.code, str(exc))
        return answer if self._consumer.is_closed else self._go_on(answer)

    def _go_on(self, answer: bytes) -> bytes:
        """Request more messages after a settle, and reply."""
        self._answer = answer  # sent in one piece with the next message, if there is one
        try:
            self._consumer.refill()
        finally:
            if self._answer:
                self._reply(self._answer)
                self._answer = b""
        return b""

    def _reply_with(self, consumer: Consumer, arguments: list[bytes], has_receipts: bool) -> Rest:
        if len(arguments) != 1 + has_receipts:
            raise UnknownCommandError("invalid command")
        receipt = parse_receipts(arguments[:1])[0] if has_receipts else None
        self._requests.reply_from_stream(consumer, receipt, arguments[-1])
        return None

    def _deliver(self, leases: list[Lease]) -> None:
        if self._has_receipts:
            messages = b"".join([self._answer, *map(encode_lease, leases)])
        else:
            payload = leases[0].payloads[0]
            messages = b"%b$%d\r\n%b\r\n" % (self._answer, len(payload), payload)
        self._answer = b""
        self._send(messages)

    def _fail(self, error: MiniqueueError) -> None:
        self._send(replies.error(error.code, str(error)))
        if self._consumer.is_closed:
            self._end()


def encode_lease(lease: Lease) -> bytes:
    """Encode every message of a lease as an array of receipt, payload and attributes."""
    if lease.attributes is not None:
        return resp_described(lease)
    # What ends each message; it comes before the next one.
    last = b"\r\n" + _encode_attributes(lease.counts)
    # Four pieces per message, joined in C: 45 ns per message; formatting each message takes 270 ns.
    pieces: list[bytes] = []
    for beginning, endings in numeral_runs(lease.receipt, lease.receipt + lease.count):
        opening = b"%b*3\r\n$%d\r\n%b" % (last, len(beginning) + len(endings[0]), beginning)
        run = [opening, b"", b"", b""] * len(endings)
        run[1::4] = endings
        pieces += run
    pieces[0] = pieces[0].removeprefix(last)
    pieces[2::4] = replies.size_lines(lease.payloads)
    pieces[3::4] = lease.payloads
    pieces.append(last)
    return b"".join(pieces)


def _encode_attributes(counts: Counts) -> bytes:
    return b"*0\r\n" if counts is NEVER_RETURNED else replies.encode(counts.nonzero(), RESP2)


def _receipts(arguments: list[bytes], has_receipts: bool) -> Sequence[int] | None:
    if has_receipts:
        return parse_receipts(arguments)
    if arguments:
        raise UnknownCommandError("invalid command")
    return None


def _nack(consumer: Consumer, arguments: list[bytes], has_receipts: bool) -> Rest:
    if len(arguments) < 2:  # the usual case: an option has a name and a value
        return consumer.nack(_receipts(arguments, has_receipts))
    receipts, options = nack_options_of(arguments, 0)
    return consumer.nack(_receipts(receipts, has_receipts), options)


def _dack(consumer: Consumer, arguments: list[bytes], has_receipts: bool) -> Rest:
    delay_seconds = parse_seconds(arguments[0].decode("utf-8", "replace")) if arguments else DEFAULT_DELAY_SECONDS
    return consumer.dack(delay_seconds, _receipts(arguments[1:], has_receipts))


_Settle = Callable[[Consumer, list[bytes], bool], Rest]


def _by_receipts(act: Callable[[Consumer, Sequence[int] | None], Rest]) -> _Settle:
    def settle(consumer: Consumer, arguments: list[bytes], has_receipts: bool) -> Rest:
        return act(consumer, _receipts(arguments, has_receipts) if arguments or has_receipts else None)

    return settle


_SETTLES: dict[bytes, _Settle] = {
    b"ACK": _by_receipts(Consumer.ack),
    b"NACK": _nack,
    b"BACK": _by_receipts(Consumer.back),
    b"DACK": _dack,
}
