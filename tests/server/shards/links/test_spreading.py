"""A spread topic is created and deleted as a whole, even if its home shard ends in the middle."""

import asyncio
from pathlib import Path

import pytest

from miniqueue.broker import Broker
from miniqueue.core.message.parts import part_name
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.links.peers import Peers
from miniqueue.server.shards.links.spreading import Spreading
from tests.fakes import broker_on
from tests.server.shards.http.fleet import COUNT, PLACING, Fleet, fleet_in, topic_in
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.clients import DoorClient

HOME, PARTS = 1, 5
TOPIC = topic_in(HOME, "orders").encode()
#: The orders of a deletion: one for each shard.
ORDERS = COUNT


class EndedError(Exception):
    """The process ended."""


class Ending(Spreading):
    """A home shard that ends when it has given some orders."""

    orders_left = ORDERS

    async def _order(self, shard: int, *command: bytes) -> None:
        if not self.orders_left:
            raise EndedError
        self.orders_left -= 1
        await super()._order(shard, *command)


@pytest.fixture
async def fleet(tmp_path: Path):
    """Yield shards in which the topic has messages, and dead letters, in several parts."""
    async with fleet_in(tmp_path) as fleet:
        client = DoorClient(fleet.members[0].resp)
        settings = b"spread", b"%d" % PARTS, b"max_deliveries", b"1"
        assert await client.ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
        for number in range(2 * PARTS):
            await client.ask(b"PUB", TOPIC, b"%d" % number)
        received = await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"%d" % PARTS)
        receipts = [line for line in received.split(b"\r\n") if b"-" in line and not line.startswith(b"*")]
        for receipt in receipts:
            await client.ask(b"NACK", TOPIC, receipt)
        await client.ask(b"PUB", b"other", b"x")
        yield fleet
        client.transport.lose()


async def tend(spreading: Spreading, broker: Broker) -> None:
    """Run the tending of a home shard until no deletion is left."""
    tending = asyncio.create_task(spreading.tend())
    await until(lambda: not broker.admin.erasures)
    tending.cancel()
    await asyncio.gather(tending, return_exceptions=True)


def names_in(fleet: Fleet) -> list[bytes]:
    return [name for member in fleet.members for name in member.broker.topics()]


async def restarted(broker: Broker, fleet: Fleet) -> Broker:
    """Return the broker of the home shard as it is after a crash: with what it has stored."""
    again = broker_on(broker._engine.journal.store, fleet.clock)
    again.place(PLACING._replace(number=HOME))
    await again.start()
    return again


@pytest.mark.parametrize("given", range(ORDERS + 1))
async def test_a_deletion_that_ends_with_its_process_is_completed_by_the_next_one(fleet, given):
    home = fleet.members[HOME]
    ending = Ending(home.broker, home.shard.peers)
    ending.orders_left = given
    if given < ORDERS:
        with pytest.raises(EndedError):
            await ending.erase(TOPIC)
    else:
        await ending.erase(TOPIC)
    assert TOPIC not in home.broker.topics()  # at once, and durably

    again = await restarted(home.broker, fleet)
    assert again.admin.erasures == ({TOPIC} if given < ORDERS else set())
    await tend(Spreading(again, home.shard.peers), again)
    brokers = [again if member is home else member.broker for member in fleet.members]
    assert [name for broker in brokers for name in broker.topics()] == [b"other"]
    assert again.admin.erasures == set()
    await again.stop()


async def test_a_deletion_without_one_shard_is_completed_when_it_answers(fleet, tmp_path):
    client, home = DoorClient(fleet.members[0].resp), fleet.members[HOME]
    fleet.lose(2)
    assert (await client.ask(b"TOPIC", b"DELETE", TOPIC)).startswith(b"-TRYAGAIN")
    assert home.broker.admin.erasures == {TOPIC}
    assert fleet.members[2].broker.spread_of(TOPIC) == PARTS

    answering = Peers(PLACING._replace(number=HOME), [tmp_path / f"shard-{number}" for number in range(COUNT)])
    await tend(Spreading(home.broker, answering), home.broker)
    assert names_in(fleet) == [b"other"]
    client.transport.lose()


async def test_a_topic_that_is_created_again_has_none_of_the_old_parts(fleet):
    client, home = DoorClient(fleet.members[0].resp), fleet.members[HOME]
    ending = Ending(home.broker, home.shard.peers)
    ending.orders_left = 1
    with pytest.raises(EndedError):
        await ending.erase(TOPIC)
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"3") == b"+OK\r\n"
    assert home.broker.admin.erasures == set()
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"
    parts = sorted(name for name in names_in(fleet) if name not in (TOPIC, b"other"))
    assert parts == [part_name(TOPIC, number) for number in range(3)]
    client.transport.lose()


async def test_what_was_sent_to_a_part_before_it_was_deleted_does_not_make_it_again(fleet):
    home = fleet.members[HOME]
    await home.shard.spreading.erase(TOPIC)
    for number in range(PARTS):
        part = part_name(TOPIC, number)
        with pytest.raises(ShardAwayError):
            fleet.broker_with(part.decode()).publish(part, [b"x"])


async def test_dead_letters_with_settings_of_their_own_are_deleted_with_their_topic(fleet):
    client = DoorClient(fleet.members[0].resp)
    assert await client.ask(b"TOPIC", b"SET", TOPIC + b".dlq", b"ttl_seconds", b"1000") == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    assert names_in(fleet) == [b"other"]
    client.transport.lose()


async def test_dead_letters_can_be_deleted_alone(fleet):
    client = DoorClient(fleet.members[0].resp)
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC + b".dlq") == b"+OK\r\n"
    assert await client.ask(b"LEN", TOPIC + b".dlq") == b":0\r\n"
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % PARTS
    client.transport.lose()


async def test_a_shard_without_parts_asks_one_other_whether_a_group_is_used(fleet: Fleet, monkeypatch):
    """Few parts, of which one shard has none."""
    topic = topic_in(HOME, "few").encode()
    client = DoorClient(fleet.members[0].resp)
    assert await client.ask(b"TOPIC", b"CREATE", topic, b"spread", b"2") == b"+OK\r\n"
    peers = fleet.members[0].shard.peers
    asked: list[int] = []
    opened: list[str] = []
    ask, open_link = peers.spreading.ask, Peers._open

    async def noted_ask(shard: int, command: list[bytes]) -> bytes:
        asked.append(shard)
        return await ask(shard, command)

    def noted_open(self: Peers, number: int, introduction):
        opened.append(introduction.kind)
        return open_link(self, number, introduction)

    monkeypatch.setattr(peers.spreading, "ask", noted_ask)
    monkeypatch.setattr(Peers, "_open", noted_open)
    assert fleet.members[0].broker.parts_here(topic) == []
    for _ in range(3):
        assert await client.ask(b"RECEIVE", topic, b"GROUP", b"audit") == b"*0\r\n"
    assert asked == [HOME] * 3
    assert opened.count("spread") == COUNT + 1  # the kept link, and the first use
    for number in range(2):
        part = part_name(topic, number)
        assert b"audit" in fleet.broker_with(part.decode()).groups.names(part)
    assert await client.ask(b"GROUP", b"DELETE", topic, b"audit") == b"+OK\r\n"
    assert await client.ask(b"RECEIVE", topic, b"GROUP", b"audit") == b"*0\r\n"
    for number in range(2):
        part = part_name(topic, number)
        assert b"audit" in fleet.broker_with(part.decode()).groups.names(part)
    client.transport.lose()
