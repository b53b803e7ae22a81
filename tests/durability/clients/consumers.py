"""Clients that consume and settle in every way until their connection ends, and log what they got and asked.

Now and then one leaves, with what it holds, and comes again as another.
"""

import base64
from collections import deque
from collections.abc import Callable
from random import Random

from miniqueue_client import DisconnectedError, connect
from tests.durability.clients.events import Act
from tests.durability.clients.publishers import Ports
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.resp import Resp
from tests.serving import Lines

ACTS = (Act.ACK, Act.ACK, Act.ACK, Act.ACK, Act.NACK, Act.BACK, Act.DACK)
CAUSES = ("nacks", "backs", "dacks", "timeouts", "disconnects")
LEAVE_PROBABILITY = 0.01
SYNC_PROBABILITY = 0.5
MAX_DELAY_SECONDS = 0.15
#: More than is received at once: so much is not settled together for want of room.
MAX_HELD = 1000
#: Before the counts, the attributes of a message that was received are id, time and deliveries, each with its name.
KNOWN_WORDS = 6


def _choose(random: Random) -> tuple[Act, float]:
    act = random.choice(ACTS)
    return act, round(random.uniform(0, MAX_DELAY_SECONDS), 3) if act is Act.DACK else 0.0


class Consumer:
    """One connection: what it holds, and the settles that were not answered yet."""

    def __init__(self, recorder: Recorder, kind: str, topic: str, random: Random) -> None:
        self.topic = topic
        self.random = random
        self.held: dict[bytes, int] = {}
        self._recorder = recorder
        self._client = recorder.new_client(kind)
        self._asked: deque[int] = deque()

    def receive(self, receipt: bytes, payload: bytes, marks: dict[str, int] | None) -> None:
        id_ = self._recorder.deliver(self._client, self.topic, payload, marks)
        if id_ is not None:
            self.held[receipt] = id_

    def settle(self, receipts: list[bytes], *, is_synced: bool = False) -> tuple[Act, float]:
        """Log that these are about to be settled, and whether durably; return how."""
        act, delay_seconds = _choose(self.random)
        ids = tuple(self.held.pop(receipt) for receipt in receipts)
        op = self._recorder.invoke(self._client, act, self.topic, ids, delay_seconds, is_synced=is_synced)
        self._asked.append(op)
        return act, delay_seconds

    def answered(self) -> None:
        """Log that the oldest settle was answered."""
        self._recorder.ok(self._asked.popleft())

    def wants_to_leave(self) -> bool:
        return self.random.random() < LEAVE_PROBABILITY

    def leave(self) -> None:
        """Log that the connection is about to end, or has ended."""
        self._recorder.gone(self._client)
        while self._asked:
            self._recorder.unknown(self._asked.popleft())

    def some_held(self, limit: int) -> list[bytes]:
        """Choose what to settle now; all when there is no room for more."""
        receipts = list(self.held)
        if len(receipts) >= limit:
            return receipts
        return self.random.sample(receipts, self.random.randint(0, min(3, len(receipts))))


async def consume_one_at_a_time(ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
    """SUBSCRIBE in its plain form."""
    while True:
        consumer = Consumer(recorder, "plain", random.choice(topics), random)
        connection = await Resp.connect(ports.resp)
        try:
            await _one_at_a_time(connection, consumer)
        finally:
            consumer.leave()
            connection.close()


async def _one_at_a_time(connection: Resp, consumer: Consumer) -> None:
    connection.send((b"SUBSCRIBE", consumer.topic.encode()))
    while not consumer.wants_to_leave():
        payload = await connection.hear()
        assert isinstance(payload, bytes), payload
        consumer.receive(b"", payload, None)
        if consumer.wants_to_leave():
            return
        act, delay_seconds = consumer.settle([b""])
        words = [b"%.3f" % delay_seconds] if act is Act.DACK else []
        assert await connection.ask(act.upper().encode(), *words) == b"OK"
        consumer.answered()


async def consume_several(ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
    """SUBSCRIBE with PREFETCH, settled by receipts in any order."""
    while True:
        consumer = Consumer(recorder, "prefetch", random.choice(topics), random)
        connection = await Resp.connect(ports.resp)
        try:
            await several(connection, consumer, random.choice((1, 3, 50)))
        finally:
            consumer.leave()
            connection.close()


async def several(connection: Resp, consumer: Consumer, limit: int, *words: bytes) -> None:
    """Consume up to `limit` at a time until the consumer leaves; `words` of SUBSCRIBE follow."""
    connection.send((b"SUBSCRIBE", consumer.topic.encode(), b"PREFETCH", b"%d" % limit, *words))
    while not consumer.wants_to_leave():
        reply = await connection.hear()
        if isinstance(reply, list):
            receipt, payload, marks = reply
            consumer.receive(receipt, payload, marks_of(marks))
        else:
            assert reply == b"OK", reply
            consumer.answered()
        if receipts := consumer.some_held(limit):
            act, delay_seconds = consumer.settle(receipts)
            words = [b"%.3f" % delay_seconds] if act is Act.DACK else []
            connection.send((act.upper().encode(), *words, *receipts))


async def consume_by_receiving(ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
    """RECEIVE, with leases that outlast every crash, settled by receipt, half of the time with SYNC.

    It leaves when it holds nothing.
    """
    while True:
        consumer = Consumer(recorder, "receive", random.choice(topics), random)
        connection = await Resp.connect(ports.resp)
        try:
            await _receiving(connection, consumer, random.choice((1, 3, 50)))
        finally:
            consumer.leave()
            connection.close()


async def _receiving(connection: Resp, consumer: Consumer, limit: int) -> None:
    topic = consumer.topic.encode()
    while not consumer.wants_to_leave():
        received = await connection.ask(b"RECEIVE", topic, b"COUNT", b"%d" % limit, b"WAIT", b"0.1", b"LEASE", b"3600")
        assert isinstance(received, list), received
        for receipt, payload, attributes in received:
            consumer.receive(receipt, payload, marks_of(attributes[KNOWN_WORDS:]))
        while consumer.held:
            if receipts := consumer.some_held(consumer.random.choice((1, MAX_HELD))):
                is_synced = consumer.random.random() < SYNC_PROBABILITY
                act, delay_seconds = consumer.settle(receipts, is_synced=is_synced)
                words = [b"SYNC"] * is_synced + ([b"%.3f" % delay_seconds] if act is Act.DACK else [])
                reply = await connection.ask(act.upper().encode(), topic, *receipts, *words)
                assert reply in (b"OK", [b"OK"] * len(receipts)), reply
                consumer.answered()


def marks_of(words: list[bytes | int]) -> dict[str, int]:
    """Return how often a message came back, by cause; attributes of messages may stand among the counts."""
    marks = {bytes(name).decode(): value for name, value in zip(words[::2], words[1::2], strict=True)}
    return {cause: int(marks[cause]) for cause in CAUSES if cause in marks}


async def consume_over_http(ports: Ports, recorder: Recorder, topics: list[str], random: Random) -> None:
    """The stream of HTTP/2, with prefetch or without."""

    def next_one() -> tuple[Consumer, int, str]:
        return Consumer(recorder, "http", random.choice(topics), random), random.choice((0, 0, 4, 50)), ""

    await streams(ports, next_one)


async def streams(ports: Ports, next_one: Callable[[], tuple[Consumer, int, str]]) -> None:
    """Consume as one after the other, over HTTP/2, each with its prefetch, 0 for none, and other options."""
    http = await connect("localhost", ports.https, cafile=ports.ca)
    try:
        while True:
            consumer, limit, options = next_one()
            query = "&".join([f"prefetch={limit}"] * bool(limit) + [options] * bool(options))
            stream = await http._begin(b"POST", f"/subscribe/{consumer.topic}?{query}".rstrip("?").encode())
            try:
                await _over_http(Lines(stream), consumer, limit)
            finally:
                consumer.leave()
                stream.close()
    except DisconnectedError as exc:
        raise ConnectionResetError(str(exc)) from exc
    finally:
        http.close()


async def _over_http(lines: Lines, consumer: Consumer, limit: int) -> None:
    """Settles have no answer here; without prefetch the next delivery says that the one before was settled."""
    lines.say("INIT")
    has_settled = False
    while not consumer.wants_to_leave():
        line = await lines.hear()
        if line is None:
            raise ConnectionResetError("the stream has ended")
        assert "error" not in line, line
        if has_settled and not limit:
            consumer.answered()
        consumer.receive(str(line.get("receipt", "")).encode(), base64.b64decode(str(line.get("msg", ""))), None)
        if receipts := consumer.some_held(limit or 1):
            act, delay_seconds = consumer.settle(receipts)
            words = [f"{delay_seconds:.3f}"] if act is Act.DACK else []
            lines.say(" ".join([act.upper(), *words, *(receipt.decode() for receipt in receipts)]).rstrip())
            has_settled = True
