"""Leased messages are listed with their receipts: of a group, a member, or a consumer."""

import asyncio

import pytest

from miniqueue.broker.leases import listing
from miniqueue.broker.leases.listing import HeldMessage, LeaseHolder, parse_after
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import ReadOnlyError, StorageError
from miniqueue.errors.requests import InvalidMemberError, InvalidOptionError, UnknownGroupError, UnknownTopicError
from miniqueue.server.resp.commands.session import Actor
from tests.broker.leases.test_leases import Asked, pass_time, take
from tests.fakes import settle_down

T = b"t"


async def ids(world, group=None, **options) -> list[bytes]:
    return [held.id for held in await world.broker.leases.of_group(T, group, **options)]


async def test_a_group_lists_what_can_be_settled_by_receipt(world):
    await world.publish(T, b"a", b"b", b"c")
    await world.holding(T)  # a stream: no other client can settle what it holds
    first, second = take(world, lease_seconds=60), take(world)
    world.clock.advance(10.5)
    assert await world.broker.leases.of_group(T, None) == [
        HeldMessage(T, b"0", b"default", b"0-1", first.receipts[0], 49_500),
        HeldMessage(T, b"0", b"default", b"0-2", second.receipts[0], 19_500),
    ]
    world.broker.leases.ack(T, first.receipts)
    assert await ids(world) == [b"0-2"]
    pass_time(world, 20)
    assert await ids(world) == []


async def test_each_message_of_a_lease_is_listed_until_it_is_settled(world):
    await world.publish(T, b"a", b"b", b"c", b"d")
    receipts = take(world, 4).receipts
    world.broker.leases.ack(T, [receipts[1]])
    listed = await world.broker.leases.of_group(T, b"default")
    assert [(held.id, held.receipt) for held in listed] == [
        (b"0-0", receipts[0]),
        (b"0-2", receipts[2]),
        (b"0-3", receipts[3]),
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
async def test_pages_go_on_after_a_receipt_that_may_be_settled(count, world, monkeypatch):
    monkeypatch.setattr(listing, "_LEASES_IN_TURN", 2)
    world.broker.admin.create(T, {"partitions": 2})
    await world.publish_each(T, *[b"%d" % n for n in range(6)])
    receipts = [receipt for _ in range(4) for receipt in take(world, 2).receipts]
    seen, after = [], 0
    while page := await world.broker.leases.of_group(T, None, after=after, count=count):
        assert len(page) <= count
        seen += page
        after = parse_after(page[-1].receipt)
        world.broker.leases.ack(T, [page[-1].receipt])
    assert sorted(held.receipt for held in seen) == sorted(receipts)


async def test_a_member_lists_its_streams_and_its_receipts(world):
    world.broker.admin.create(T, {"partitions": 2})
    await world.publish_each(T, b"a", b"b", b"c", b"d")
    delivered = []
    stream = world.broker.consumer(T, delivered.extend, lambda _: None, 2, b"g", b"m")
    stream.request()
    await settle_down()
    asked = Asked(world, group=b"g", member=b"m", max_count=9)
    held = await world.broker.leases.of_group(T, b"g", b"m")
    assert {one.id for one in held} == {b"0-0", b"0-1", b"1-0", b"1-1"}
    assert {one.receipt for one in held if one.remaining_ms is not None} == set(asked.receipts)
    own = world.broker.leases.of_consumer(stream)
    assert {one.receipt for one in own} == {b"%d" % lease.receipt for lease in delivered}
    assert [one for one in held if one.remaining_ms is None] == own
    assert await ids(world, b"g", member=b"other") == []
    world.broker.consumer(T, delivered.extend, lambda _: None, 1, b"g", b"other")
    assert len(await ids(world, b"g", member=b"m")) == 4, "a partition that is to move has not moved"
    stream.close()
    assert world.broker.leases.of_consumer(stream) == []


async def test_one_receipt_is_found_in_whatever_group(world):
    await world.publish(T, b"a", b"b")
    receipts = take(world, 2).receipts
    held = world.broker.leases.of_receipt(T, receipts[1])
    assert held is not None
    assert (held.id, held.receipt) == (b"0-1", receipts[1])
    assert world.broker.leases.of_receipt(T, b"x-1") is None
    assert world.broker.leases.of_receipt(b"nothing", receipts[1]) is None


async def test_what_ends_while_others_have_their_turn_is_not_listed(world, monkeypatch):
    monkeypatch.setattr(listing, "_LEASES_IN_TURN", 1)
    await world.publish(T, b"a", b"b", b"c")
    receipts = [take(world).receipts[0] for _ in range(3)]
    listed = asyncio.create_task(ids(world))
    await asyncio.sleep(0)
    world.broker.leases.ack(T, receipts[:1])
    assert await listed == [b"0-1", b"0-2"]
    listed = asyncio.create_task(ids(world))
    await asyncio.sleep(0)
    await world.broker.delete_topic(T)
    assert await listed == []
    with pytest.raises(UnknownTopicError):
        await ids(world)


async def test_what_cannot_be_listed_is_refused(world):
    await world.publish(T, b"a")
    with pytest.raises(UnknownGroupError):
        await ids(world, b"g")
    with pytest.raises(InvalidMemberError):
        await ids(world, member=b"a b")
    for after in (b"", b"x", b"x-", b"1" * 20):
        with pytest.raises(InvalidOptionError, match="after is the last receipt"):
            parse_after(after)
    world.broker._engine.journal.admission.shut(StorageError("the disk fails"))
    with pytest.raises(ReadOnlyError):
        await ids(world)


# --- who holds them -------------------------------------------------------------------------------------------


async def holders(world, group=b"default"):
    return await world.broker.leases.holders(T, group)


async def received_by(world, account, count, lease_seconds=30.0):
    """Receive messages as the client whose connection this is the account of."""
    token = CURRENT_ACTOR.set(Actor(account=account))
    try:
        return take(world, count, lease_seconds=lease_seconds)
    finally:
        CURRENT_ACTOR.reset(token)


async def test_users_and_addresses_hold_what_they_received(world, monkeypatch):
    monkeypatch.setattr(listing, "_LEASES_IN_TURN", 2)
    await world.publish_each(T, *[b"%d" % n for n in range(12)])
    memory = world.broker.memory
    connections = [memory.connect(f"10.0.0.{number}") for number in range(3)]
    for connection in connections[:2]:
        connection.become("ada")
    for connection, count, seconds in zip((*connections, None), (3, 4, 2, 1), (60, 50, 40, 30), strict=True):
        await received_by(world, connection, count, seconds)
    world.clock.advance(10.5)
    assert await holders(world) == [
        LeaseHolder("ada", None, 7, 39_500),
        LeaseHolder(None, "10.0.0.2", 2, 29_500),
        LeaseHolder(None, None, 1, 19_500),
    ]


async def test_who_has_settled_everything_holds_nothing(world):
    await world.publish(T, b"a", b"b")
    connection = world.broker.memory.connect("10.0.0.1")
    received = await received_by(world, connection, 2)
    connection.close()  # leases belong to no connection
    world.broker.leases.ack(T, received.receipts[:1])
    assert [(each.address, each.leased) for each in await holders(world)] == [("10.0.0.1", 1)]
    pass_time(world, 31)
    assert await holders(world) == []
    await world.holding(T)
    assert await holders(world) == [], "a stream has its own leases"


async def test_holders_are_those_of_an_existing_group(world):
    with pytest.raises(UnknownTopicError):
        await holders(world)
    await world.publish(T, b"a")
    with pytest.raises(UnknownGroupError):
        await holders(world, b"nothing")
