"""What the parts of a spread topic send arrives in any pieces: clients get whole messages, and all replies."""

import random

import pytest

from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.server.resp.replies import ReplyQueue
from miniqueue.server.shards.links.growth import Growth
from miniqueue.server.shards.resp.parts.stream import SpreadStream
from miniqueue.wire.resp_replies import array, bulk
from tests.fakes import FakeTransport

PARTS = 3


class FakeBroker:
    """A broker that knows one spread topic."""

    def spread_of(self, _topic: bytes) -> int:
        return PARTS


class FakeClient:
    """The connection of a stream, with real replies."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.mode = None
        self.account = Memory().connect("10.0.0.1")
        self.is_aborted = False
        self.transport = FakeTransport(self)
        self._replies = ReplyQueue(lambda: None, lambda: None)
        self._replies.transport = self.transport
        self.send, self.await_reply = self._replies.send, self._replies.await_reply
        self.give_out = self._replies.give_out

    def hold(self) -> None:
        """Do nothing: the test sends no commands meanwhile."""

    def release(self, reply: bytes) -> None:
        self.send(reply)

    def abort(self) -> None:
        self.is_aborted = True


class FakeLink:
    """The link to the shard of a part."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def open_tunnel(self, tunnel) -> None:
        self.arrive = tunnel.on_data

    def send(self, command: bytes, batch) -> None:
        self.sent.append(command)
        self.begin = batch.on_end

    def write(self, command: bytes) -> None:
        self.sent.append(command)

    def close(self) -> None:
        """Do nothing: nothing is connected."""


def message(part: int, number: int, chance: random.Random) -> bytes:
    receipt = part << 57 | number
    payload = bytes(chance.choices(b"x\r\n*$+-:1", k=chance.randint(0, 40)))
    words = chance.choice([[], [b"nacks", 1], [b"key", b"k", b"headers", [[b"a", b"b"]]]])
    return array([bulk(b"%d" % receipt), bulk(payload), encoded(words)])


def encoded(value) -> bytes:
    if isinstance(value, list):
        return array([encoded(each) for each in value])
    return b":%d\r\n" % value if isinstance(value, int) else bulk(value)


def opened(prefetch: bytes) -> tuple[FakeClient, SpreadStream, list[FakeLink]]:
    client, links = FakeClient(), [FakeLink() for _ in range(PARTS)]
    stream = SpreadStream(client, [b"SUBSCRIBE", b"t", b"PREFETCH", prefetch], PARTS, Growth())
    stream.begin(links)
    for link in links:
        link.begin(b"")
    assert client.mode is stream
    return client, stream, links


@pytest.mark.parametrize("seed", range(30))
def test_messages_and_replies_arrive_in_any_pieces(seed):
    chance = random.Random(seed)
    client, stream, links = opened(b"1000")
    messages, settled = [], 0
    queues = [b""] * PARTS
    for number in range(60):
        part = chance.randrange(PARTS)
        if chance.random() < 0.3:
            stream.execute([b"ACK", b"%d" % (part << 57 | number)])
            queues[part] += b"+OK\r\n"
            settled += 1
        else:
            messages.append(message(part, number, chance))
            queues[part] += messages[-1]
        if chance.random() < 0.5:
            at = chance.randint(0, len(queues[part]))
            links[part].arrive(queues[part][:at])
            queues[part] = queues[part][at:]
    for link, rest in zip(links, queues, strict=True):
        for at in range(0, len(rest), 7):
            link.arrive(rest[at : at + 7])
    written = client.transport.take()
    for each in messages:
        assert written.count(each) >= 1
        written = written.replace(each, b"", 1)
    assert written == b"+OK\r\n" * settled


def test_what_is_held_back_is_charged_to_the_client():
    client, stream, links = opened(b"1")
    each = [message(part, 1, random.Random(part)) for part in range(PARTS)]
    for link, data in zip(links, each, strict=True):
        link.arrive(data)
    assert client.transport.take() == each[0]
    assert client.account.amounts().get(Purpose.LEASES, 0) == len(each[1]) + len(each[2])
    stream.execute([b"ACK", b"1"])
    links[0].arrive(b"+OK\r\n")
    assert client.transport.take() == b"+OK\r\n" + each[1]
    stream.close()
    assert client.account.amounts().get(Purpose.LEASES, 0) == 0


def test_bytes_that_make_no_sense_end_the_connection():
    client, _, links = opened(b"1000")
    links[1].arrive(b"?\r\n")
    assert client.is_aborted
