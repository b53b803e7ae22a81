"""A spread topic does what one list for each key would do, whatever clients of all doors send, in any order."""

from collections import defaultdict
from random import Random

import pytest

from tests.server.shards.http.fleet import COUNT, TOPICS
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import map_of, value_of

TOPIC = TOPICS[1].encode()
PARTS = 5
STEPS = 60
KEYS = [b"key-%d" % number for number in range(9)]
ALL = b"1000"


class Model:
    """What the topic has, by key.

    Attributes:
      published: all messages, in the order of their publish.
      waiting: those that the default group has not got, or got and returned.
      unread: those that the second group has not read.
    """

    def __init__(self) -> None:
        self.published: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.waiting: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self.unread: defaultdict[bytes, list[bytes]] = defaultdict(list)

    def publish(self, key: bytes, payload: bytes) -> None:
        for messages in (self.published, self.waiting, self.unread):
            messages[key].append(payload)

    def rewind(self) -> None:
        self.unread = defaultdict(list, {key: [*payloads] for key, payloads in self.published.items()})


def count(messages: dict[bytes, list[bytes]]) -> int:
    return sum(map(len, messages.values()))


def by_key(payloads: list[bytes]) -> dict[bytes, list[bytes]]:
    """Return payloads by their keys, which they begin with."""
    keyed: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for payload in payloads:
        keyed[payload.partition(b":")[0]].append(payload)
    return keyed


def take(messages: dict[bytes, list[bytes]], payloads: list[bytes]) -> None:
    """Take messages that were delivered: of each key, the first ones."""
    for key, own in by_key(payloads).items():
        assert messages[key][: len(own)] == own
        del messages[key][: len(own)]


class Walk:
    """Random commands, at random doors, each compared with the model."""

    def __init__(self, clients: list[DoorClient], seed: int) -> None:
        self._clients = clients
        self._chance = Random(seed)
        self._model = Model()
        self._number = 0
        self._held: list[tuple[bytes, bytes]] = []  # receipts and payloads

    async def ask(self, *words: bytes) -> bytes:
        return await self._chance.choice(self._clients).ask(*words)

    async def run(self) -> None:
        acts = [self.publish, self.publish_batch, self.publish_again, self.receive, self.receive, self.settle]
        acts += [self.settle, self.read, self.rewind, self.purge]
        for _ in range(STEPS):
            await self._chance.choice(acts)()
            await self.compare()
        await self.end()

    def _next(self) -> tuple[bytes, bytes]:
        self._number += 1
        key = self._chance.choice(KEYS)
        return key, b"%b:%d" % (key, self._number)

    async def publish(self) -> None:
        client, messages = self._chance.choice(self._clients), [self._next() for _ in range(self._chance.randint(1, 5))]
        client.tell(*[(b"PUB", TOPIC, payload, b"KEY", key) for key, payload in messages])
        assert all(reply.startswith(b"$") for reply in await client.hear(len(messages)))
        for message in messages:
            self._model.publish(*message)

    async def publish_batch(self) -> None:
        messages = [self._next() for _ in range(self._chance.randint(1, 30))]
        words = [word for key, payload in messages for word in (payload, b"2", b"KEY", key)]
        ids, is_duplicate = value_of(await self.ask(b"PUBEACH", TOPIC, b"batch-%d" % self._number, *words))
        assert (len(set(ids)), is_duplicate) == (len(messages), 0)
        again = value_of(await self.ask(b"PUBEACH", TOPIC, b"batch-%d" % self._number, *words))
        assert again == [ids, 1]
        for message in messages:
            self._model.publish(*message)

    async def publish_again(self) -> None:
        key, payload = self._next()
        words = b"PUB", TOPIC, payload, b"KEY", key, b"DEDUP", payload
        first, again = [value_of(await self.ask(*words)) for _ in range(2)]
        assert (first[1], again) == (0, [first[0], 1])
        self._model.publish(key, payload)

    async def receive(self) -> None:
        if self._held:
            return
        wanted = self._chance.randint(1, 40)
        received = value_of(await self.ask(b"RECEIVE", TOPIC, b"COUNT", b"%d" % wanted))
        assert len(received) == min(wanted, count(self._model.waiting))
        self._held = [(receipt, payload) for receipt, payload, _ in received]
        take(self._model.waiting, [payload for _, payload in self._held])

    async def settle(self) -> None:
        """Acknowledge a part of what is held, in any order, and return the rest to the front."""
        held, self._held = self._held, []
        done = self._chance.sample(held, self._chance.randint(0, len(held)))
        if done:
            await self._settle(b"ACK", done)
        if rest := [each for each in held if each not in done]:
            await self._settle(b"NACK", rest)
            for key, payloads in by_key([payload for _, payload in rest]).items():
                self._model.waiting[key][:0] = payloads

    async def _settle(self, word: bytes, held: list[tuple[bytes, bytes]]) -> None:
        reply = value_of(await self.ask(word, TOPIC, *[receipt for receipt, _ in held], b"SYNC"))
        assert reply == (b"OK" if len(held) == 1 else [b"OK"] * len(held))

    async def read(self) -> None:
        options = b"GROUP", b"audit", b"COUNT", b"%d" % self._chance.randint(1, 40), b"AUTOACK"
        take(self._model.unread, [payload for _, payload, _ in value_of(await self.ask(b"RECEIVE", TOPIC, *options))])

    async def rewind(self) -> None:
        before = count(self._model.unread)
        self._model.rewind()
        moved = map_of(value_of(await self.ask(b"GROUP", b"SEEK", TOPIC, b"audit", b"earliest")))
        assert moved == {b"before": before, b"after": count(self._model.unread)}

    async def purge(self) -> None:
        if self._chance.random() < 0.7:
            return
        assert value_of(await self.ask(b"PURGE", TOPIC, b"GROUP", b"default")) == count(self._model.waiting)
        self._model.waiting.clear()

    async def compare(self) -> None:
        """Compare the counts, and sometimes what PEEK shows, with the model."""
        waiting, unread = count(self._model.waiting), count(self._model.unread)
        assert value_of(await self.ask(b"LEN", TOPIC, b"GROUP", b"default")) == waiting + len(self._held)
        assert value_of(await self.ask(b"LEN", TOPIC, b"GROUP", b"audit")) == unread
        if self._chance.random() < 0.2:
            seen = by_key([payload for _, payload, _ in value_of(await self.ask(b"PEEK", TOPIC, b"COUNT", ALL))])
            assert seen == {key: payloads for key, payloads in self._model.waiting.items() if payloads}

    async def end(self) -> None:
        """Receive everything that is left: nothing is lost, and nothing is there twice."""
        await self.settle()
        while received := value_of(await self.ask(b"RECEIVE", TOPIC, b"COUNT", ALL, b"AUTOACK")):
            take(self._model.waiting, [payload for _, payload, _ in received])
        assert count(self._model.waiting) == 0
        await self.rewind()
        while received := value_of(await self.ask(b"RECEIVE", TOPIC, b"GROUP", b"audit", b"COUNT", ALL, b"AUTOACK")):
            take(self._model.unread, [payload for _, payload, _ in received])
        assert count(self._model.unread) == 0


@pytest.mark.parametrize("seed", range(4))
async def test_a_spread_topic_behaves_like_a_list_for_each_key(connect, seed):
    clients = [connect(door) for door in range(COUNT)]
    settings = b"spread", b"%d" % PARTS, b"retention", b"forever"
    assert await clients[0].ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
    assert await clients[0].ask(b"GROUP", b"CREATE", TOPIC, b"audit") == b"+OK\r\n"
    await Walk(clients, seed).run()
