"""One consuming connection for each protocol: it takes messages, settles them, and asks for more.

Each is lock-step: it settles what is in hand before it gets more; `batch` tells how many that are.
"""

import asyncio
from abc import abstractmethod
from typing import Any, Protocol, cast

import hiredis

from benchmarks.clients.dialects import INBOX, NATS_HELLO, TOPIC, pack

GROUP = b"group"
#: Groups of miniqueue, for consumers in several groups.
GROUPS = (b"group0", b"group1", b"group2")

#: A RESP reply: the stream clients know what they asked for, and so what is in it.
Reply = list[Any] | bytes | int | None


class Sink(Protocol):
    """Where payloads go."""

    def received(self, payloads: list[bytes]) -> bool:
        """Count payloads; return whether the consumer is to continue."""
        ...

    def fail(self, error: Exception) -> None:
        """Record why a consumer has failed."""
        ...


class Consumer(asyncio.Protocol):
    """The base of all consumers; `word` settles messages, if there is a choice."""

    def __init__(self, sink: Sink, number: int, batch: int, word: bytes) -> None:
        self._sink = sink
        self._number = number
        self._batch = batch
        self._word = word

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first messages."""
        self._transport = cast(asyncio.Transport, transport)
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the server has closed the connection."""
        self._sink.fail(RuntimeError(f"the server closed the connection: {exc}"))

    def begin(self) -> None:
        """Ask for the first messages."""


class RespConsumer(Consumer):
    """A consumer of a server that speaks RESP."""

    def begin(self) -> None:
        """Ask for the first messages."""
        self._reader = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        """Hand each reply on; an error ends the load."""
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if isinstance(reply, Exception):
                self._sink.fail(reply)
            else:
                self.replied(reply)

    @abstractmethod
    def replied(self, reply: Reply) -> None:
        """Take one reply."""

    def send(self, *words: bytes) -> None:
        """Send one command."""
        self._transport.write(pack(*words))


class Subscriber(RespConsumer):
    """miniqueue's SUBSCRIBE: one message at a time, settled by a word."""

    def begin(self) -> None:
        """Subscribe."""
        super().begin()
        self._settle = pack(*self._word.split())
        self.send(b"SUBSCRIBE", TOPIC)

    def replied(self, reply: Reply) -> None:
        """Settle every message; `OK` is no message."""
        if isinstance(reply, bytes) and reply != b"OK" and self._sink.received([reply]):
            self._transport.write(self._settle)


class Prefetcher(RespConsumer):
    """miniqueue's SUBSCRIBE … PREFETCH: up to a batch of messages at a time, settled together by their receipts.

    It settles a whole batch at a time; but a message alone is not held back for company, if `is_eager`.
    """

    is_eager = False

    @property
    def options(self) -> tuple[bytes, ...]:
        """The words of SUBSCRIBE after the prefetch."""
        return ()

    def begin(self) -> None:
        """Subscribe."""
        super().begin()
        self._receipts: list[bytes] = []
        self.send(b"SUBSCRIBE", TOPIC, b"PREFETCH", b"%d" % self._batch, *self.options)

    def data_received(self, data: bytes) -> None:
        """Take all messages of a read, then settle."""
        self._payloads: list[bytes] = []
        super().data_received(data)
        goes_on = self._sink.received(self._payloads)
        if goes_on and self._receipts and (self.is_eager or len(self._receipts) >= self._batch):
            self.send(*self._word.split(), *self._receipts)
            self._receipts = []

    def replied(self, reply: Reply) -> None:
        """Keep the receipt of a message; `OK` is no message."""
        if isinstance(reply, list):
            self._receipts.append(reply[0])
            self._payloads.append(reply[1])


class EagerPrefetcher(Prefetcher):
    """Settles what came in one read, as a consumer does that must not wait."""

    is_eager = True


class GroupPrefetcher(Prefetcher):
    """The same, each connection in one of `groups`."""

    groups: tuple[bytes, ...] = GROUPS

    @property
    def options(self) -> tuple[bytes, ...]:
        """The words of SUBSCRIBE after the prefetch."""
        return b"GROUP", self.groups[self._number % len(self.groups)]


class Receiver(RespConsumer):
    """miniqueue's RECEIVE COUNT batch WAIT, then ACK by receipt and the next RECEIVE in one write."""

    def begin(self) -> None:
        """Ask for the first messages."""
        super().begin()
        self._receive = pack(b"RECEIVE", TOPIC, b"COUNT", b"%d" % self._batch, b"WAIT", b"60")
        self._transport.write(self._receive)

    def replied(self, reply: Reply) -> None:
        """Acknowledge the messages; the reply to ACK has none."""
        if isinstance(reply, list) and isinstance(reply[0], list):
            acknowledge = pack(*self._word.split(), TOPIC, *[message[0] for message in reply])
            if self._sink.received([message[1] for message in reply]):
                self._transport.write(acknowledge + self._receive)


class LogReader(RespConsumer):
    """miniqueue's READ: a page of the log after the other, from its beginning on; there is nothing to settle."""

    def begin(self) -> None:
        """Ask for the first page."""
        super().begin()
        self._ask(0)

    def _ask(self, offset: int) -> None:
        self.send(b"READ", TOPIC, b"0", b"%d" % offset, b"COUNT", b"%d" % self._batch, b"BYTES", b"%d" % (4 << 20))

    def replied(self, reply: Reply) -> None:
        """Ask for the page behind this one."""
        if isinstance(reply, list):
            page = dict(zip(reply[::2], reply[1::2], strict=True))
            if self._sink.received([message[1] for message in page[b"messages"]]):
                self._ask(page[b"next"])


class GroupReader(RespConsumer):
    """Redis: XREADGROUP COUNT batch BLOCK, then XACK and the next XREADGROUP in one write."""

    groups: tuple[bytes, ...] = (GROUP,)

    def begin(self) -> None:
        """Ask for the first messages."""
        super().begin()
        self._group = self.groups[self._number % len(self.groups)]
        name, count = b"consumer%d" % self._number, b"%d" % self._batch
        words = (b"XREADGROUP", b"GROUP", self._group, name, b"COUNT", count, b"BLOCK", b"0", b"STREAMS", TOPIC, b">")
        self._read = pack(*words)
        self._transport.write(self._read)

    def replied(self, reply: Reply) -> None:
        """Acknowledge the entries; a number is the reply to XACK."""
        if isinstance(reply, list):
            entries = reply[0][1]
            acknowledge = pack(b"XACK", TOPIC, self._group, *[entry[0] for entry in entries])
            if self._sink.received([entry[1][1] for entry in entries]):
                self._transport.write(acknowledge + self._read)


class GroupsReader(GroupReader):
    """The same, each connection in one of `groups`."""

    groups = GROUPS


class RangeReader(RespConsumer):
    """Redis: XRANGE, a page of the stream after the other, from its beginning on; there is nothing to settle."""

    def begin(self) -> None:
        """Ask for the first page."""
        super().begin()
        self._ask(b"-")

    def _ask(self, start: bytes) -> None:
        self.send(b"XRANGE", TOPIC, start, b"+", b"COUNT", b"%d" % self._batch)

    def replied(self, reply: Reply) -> None:
        """Ask for the page behind this one."""
        if isinstance(reply, list) and self._sink.received([entry[1][1] for entry in reply]):
            self._ask(b"(" + reply[-1][0])


class LineConsumer(Consumer):
    """A consumer of a protocol of lines, with payloads that have no line ends in them."""

    _rest = b""

    def data_received(self, data: bytes) -> None:
        """Hand all whole lines on."""
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        self.lines_received(lines)

    @abstractmethod
    def lines_received(self, lines: list[bytes]) -> None:
        """Take lines."""


class Reserver(LineConsumer):
    """beanstalkd: reserve one job, then delete or release it; the next reserve goes in the same write."""

    def begin(self) -> None:
        """Ask for the first job."""
        self._settle = b"release %b 0 0\r\nreserve\r\n" if self._word == b"release" else b"delete %b\r\nreserve\r\n"
        self._id = b""
        self._transport.write(b"reserve\r\n")

    def lines_received(self, lines: list[bytes]) -> None:
        """Settle a job when its payload is there."""
        for line in lines:
            if line.startswith(b"RESERVED "):
                self._id = line.split()[1]
            elif self._id:
                if self._sink.received([line]):
                    self._transport.write(self._settle % self._id)
                self._id = b""


class Puller(LineConsumer):
    """JetStream: ask for a batch, settle each message of it, ask for the next; settling gets no reply."""

    def begin(self) -> None:
        """Ask for the first batch."""
        inbox, request = b"%b.%d" % (INBOX, self._number), b'{"batch":%d}' % self._batch
        to = b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % (TOPIC, GROUP)
        self._next = b"PUB %b %b %d\r\n%b\r\n" % (to, inbox, len(request), request)
        self._replies: list[bytes] = []
        self._is_payload = False
        self._transport.write(NATS_HELLO % self._number + self._next)

    def lines_received(self, lines: list[bytes]) -> None:
        """Settle a batch when all of it is there."""
        payloads = []
        for line in lines:
            if self._is_payload:
                payloads.append(line)
                self._is_payload = False
            elif line.startswith(b"MSG "):
                self._replies.append(line.split()[3])
                self._is_payload = True
            elif line == b"PING":
                self._transport.write(b"PONG\r\n")
        if self._sink.received(payloads) and len(self._replies) >= self._batch:
            word = b"-NAK" if self._word == b"NACK" else b"+ACK"
            settled = b"".join(b"PUB %b %d\r\n%b\r\n" % (reply, len(word), word) for reply in self._replies)
            self._transport.write(settled + self._next)
            self._replies = []


CONSUMERS: dict[str, type[Consumer]] = {
    "subscribe": Subscriber,
    "prefetch": Prefetcher,
    "prefetch-eager": EagerPrefetcher,
    "prefetch-groups": GroupPrefetcher,
    **{f"prefetch-{group.decode()}": type("OfOneGroup", (GroupPrefetcher,), {"groups": (group,)}) for group in GROUPS},
    "read": LogReader,
    "receive": Receiver,
    "redis": GroupReader,
    "redis-groups": GroupsReader,
    "redis-range": RangeReader,
    "beanstalk": Reserver,
    "nats": Puller,
}
