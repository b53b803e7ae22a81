"""REPLACE: a message takes the place of the one with its unique key, unless a consumer has that one."""

import asyncio
import random

import pytest

from miniqueue.broker.acts import holes
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.publish.unique import Asked
from miniqueue.broker.transactions.acts import PublishWith, Refused, Settle, Way
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import LimitReachedError, TopicFullError
from tests.fakes import FakeConsumer, settle_down
from tests.tools.test_audit_of_retention import problems_of

KEYED = PublishOptions(unique_key=b"k")
NEWER = KEYED._replace(is_replacing=True)


async def published(world, payload, options=NEWER):
    accepted = await world.broker.publish_unique(b"t", payload, options)
    await accepted.commit.wait()
    return accepted.message_id, accepted.is_duplicate


async def listed(world, group=None):
    pages = [await world.broker.inspect.peek(b"t", state, 1000, group=group) for state in (State.READY, State.DELAYED)]
    return [seen.stored.payload for page in pages for seen in page]


async def in_the_log(world):
    await published(world, b"old", KEYED)


async def delayed(world):
    await published(world, b"old", KEYED._replace(delay_seconds=60))


async def due(world):
    await delayed(world)
    world.clock.advance(61)
    world.broker.tick()
    await settle_down()


def returned(way, *args):
    async def back(world):
        await in_the_log(world)
        getattr((await world.holding(b"t")).consumer, way)(*args)
        await world.commit()

    back.__name__ = way
    return back


PLACES = [in_the_log, delayed, due, returned("nack"), returned("back"), returned("dack", 60)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_keyed", [False, True])
async def test_what_waits_is_replaced_wherever_it_waits_in_one_commit(place, is_restarted, is_keyed, world):
    await world.publish(b"t", b"a")
    if is_keyed:
        world.broker.admin.replace(b"t", {"key_max_concurrency": 2})
    first = await world.holding(b"t")
    await place(world)
    first.consumer.nack()
    first.consumer.close()
    await world.publish(b"t", b"z")
    if is_restarted:
        await world.restart()
    before = world.store.write_count
    _, is_duplicate = await published(world, b"new")
    assert (is_duplicate, world.store.write_count) == (False, before + 1)
    assert sorted(await listed(world)) == [b"a", b"new", b"z"]
    assert (await published(world, b"other", KEYED))[1]
    await world.restart()
    assert problems_of(world.store._values) == []
    assert await world.drain(b"t") == [b"a", b"z", b"new"]
    assert not (await published(world, b"next", KEYED))[1]


async def test_each_replacement_puts_off_when_the_message_is_due(world):
    later = NEWER._replace(delay_seconds=10)
    for number in range(5):
        assert not (await published(world, b"%d" % number, later))[1]
        world.clock.advance(9)
        world.broker.tick()
        await settle_down()
        assert await world.drain(b"t") == []
    world.clock.advance(2)
    world.broker.tick()
    await settle_down()
    assert await world.drain(b"t") == [b"4"]


async def test_delayed_messages_replace_each_other_before_their_commits_are_done(world):
    await world.publish(b"t", b"x")
    world.store.may_write.clear()
    later, writes_before = NEWER._replace(delay_seconds=10), world.store.write_count
    accepted = [await world.broker.publish_unique(b"t", b"0", later)]
    await settle_down()
    accepted += [await world.broker.publish_unique(b"t", b"%d" % number, later) for number in range(1, 20)]
    world.store.may_write.set()
    for each in accepted:
        assert not each.is_duplicate
        await each.commit.wait()
    assert world.store.write_count == writes_before + 2
    await world.restart()
    assert await listed(world) == [b"x", b"19"]
    assert problems_of(world.store._values) == []


async def test_a_message_of_the_log_is_replaced_as_soon_as_its_commit_is_done(world):
    world.store.may_write.clear()
    old = await world.broker.publish_unique(b"t", b"old", KEYED)
    replacing = asyncio.create_task(published(world, b"new"))
    await settle_down()
    assert not replacing.done()
    world.store.may_write.set()
    assert await replacing == (b"0-1", False)
    assert old.commit.is_done
    assert await listed(world) == [b"new"]


async def test_a_message_that_was_never_delivered_is_replaced_without_a_commit_before(world):
    await in_the_log(world)
    world.store.may_write.clear()
    world.broker.publish(b"other", [b"x"])
    accepted = await world.broker.publish_unique(b"t", b"new", NEWER)
    assert (accepted.message_id, accepted.is_duplicate) == (b"0-1", False)
    world.store.may_write.set()


@pytest.mark.parametrize("group", [b"default", b"g"])
async def test_what_any_group_has_leased_is_not_replaced(group, world):
    await in_the_log(world)
    await world.broker.groups.create(b"t", b"g")
    holder = FakeConsumer(world.broker, b"t", group=group)
    holder.consumer.request()
    await settle_down()
    assert holder.payloads == [b"old"]
    assert await published(world, b"new") == (b"0-0", True)
    holder.consumer.nack()
    holder.consumer.close()
    assert await published(world, b"new") == (b"0-1", False)
    assert await listed(world) == await listed(world, b"g") == [b"new"]


async def test_a_group_that_has_settled_the_message_gets_the_new_one_too(world):
    await in_the_log(world)
    await world.broker.groups.create(b"t", b"g")
    holder = FakeConsumer(world.broker, b"t", group=b"g")
    holder.consumer.request()
    await settle_down()
    holder.consumer.ack()
    holder.consumer.close()
    assert not (await published(world, b"new"))[1]
    await world.restart()
    assert await listed(world) == await listed(world, b"g") == [b"new"]
    assert problems_of(world.store._values) == []


async def test_a_publish_that_is_refused_replaces_nothing(world):
    await in_the_log(world)
    world.broker.admin.replace(b"t", {"max_messages": 1, "limit_policy": "refuse"})
    with pytest.raises(TopicFullError):
        await published(world, b"new")
    assert await published(world, b"new", KEYED) == (b"0-0", True)
    assert await world.drain(b"t") == [b"old"]


async def test_a_dedup_id_that_was_used_replaces_nothing(world):
    once = NEWER._replace(dedup_id=b"1")
    assert not (await published(world, b"a", once))[1]
    assert (await published(world, b"b", once))[1]
    assert await world.drain(b"t") == [b"a"]


async def test_the_results_of_several_come_in_their_order(world):
    await in_the_log(world)
    asked = [
        Asked(b"t", b"1", NEWER),
        Asked(b"t", b"2", KEYED),
        Asked(b"t", b"3", PublishOptions()),
        Asked(b"t", b"4", NEWER),
        Asked(b"u", b"5", NEWER),
    ]
    results = await world.broker.publish_several(asked)
    assert [(each.message_id, each.is_duplicate) for each in results] == [
        *((b"0-1", False), (b"0-1", True), (b"0-2", False), (b"0-3", False), (b"0-0", False))
    ]
    await world.commit()
    assert await world.drain(b"t") == [b"3", b"4"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_transaction_replaces_what_waits_in_its_commit(place, is_restarted, world):
    await world.publish(b"t", b"a")
    first = await world.holding(b"t")
    await place(world)
    first.consumer.nack()
    first.consumer.close()
    if is_restarted:
        await world.restart()
    await world.commit()
    before = world.store.write_count
    acts = [PublishWith(b"t", b"new", NEWER), PublishWith(b"u", b"x", NEWER)]
    executed = await world.broker.transactions.execute(acts)
    await executed.commit.wait()
    assert [outcome.is_duplicate for outcome in executed.outcomes] == [False, False]
    assert world.store.write_count == before + 1
    assert sorted(await listed(world)) == [b"a", b"new"]
    assert problems_of(world.store._values) == []


async def test_a_transaction_that_is_refused_replaces_nothing(world, monkeypatch):
    await in_the_log(world)
    acts = [PublishWith(b"t", b"new", NEWER), Settle(b"t", [b"over"], Way.ACK)]
    refused = await world.broker.transactions.execute(acts)
    assert isinstance(refused, Refused)
    assert refused.act == 1
    monkeypatch.setattr(holes, "MAX_HOLES", 0)
    refused = await world.broker.transactions.execute(acts[:1])
    assert isinstance(refused, Refused)
    assert isinstance(refused.error, LimitReachedError)
    assert await listed(world) == [b"old"]


@pytest.mark.parametrize("way", [Way.ACK, Way.NACK])
async def test_what_is_leased_when_a_transaction_begins_is_not_replaced_but_its_key_may_be_freed(way, world):
    await in_the_log(world)
    received = []
    world.broker.leases.receive(b"t", ReceiveOptions(), received.append, received.append)
    await settle_down()
    receipt = received[0].prefix + b"%d" % received[0].leases[0][1].receipt
    acts = [Settle(b"t", [receipt], way), PublishWith(b"t", b"new", NEWER)]
    executed = await world.broker.transactions.execute(acts)
    assert executed.outcomes[1].is_duplicate is (way is Way.NACK)
    await executed.commit.wait()
    assert await listed(world) == [b"old" if way is Way.NACK else b"new"]


@pytest.mark.parametrize("seed", range(6))
async def test_one_message_of_each_key_is_there_whatever_happens(seed, world):
    chance = random.Random(seed)
    await world.broker.admin.create(b"t", {"partitions": 2} if seed % 2 else {}).wait()
    await world.broker.groups.create(b"t", b"g", Edge.EARLIEST)
    last: dict[bytes, bytes] = {}
    holders = []
    for number in range(120):
        key, payload = b"k%d" % chance.randrange(4), b"%d" % number
        match chance.randrange(8):
            case 0:
                holders.append(holder := FakeConsumer(world.broker, b"t", group=chance.choice((b"default", b"g"))))
                holder.consumer.request()
                await settle_down()
            case 1 if holders:
                holder = holders.pop(chance.randrange(len(holders)))
                if holder.payloads:
                    chance.choice((holder.consumer.nack, holder.consumer.back, lambda h=holder: h.consumer.dack(3)))()
                holder.consumer.close()
            case 2:
                world.clock.advance(2)
                world.broker.tick()
                await settle_down()
            case 3 if not number % 5:
                await world.restart()
                holders = []
            case _:
                delay = chance.choice((None, None, 3))
                options = PublishOptions(unique_key=key, is_replacing=True, delay_seconds=delay)
                if not (await published(world, payload, options))[1]:
                    last[key] = payload
    for holder in holders:
        holder.consumer.close()
    await world.commit()
    await world.restart()
    assert problems_of(world.store._values) == []
    world.clock.advance(100)
    world.broker.tick()
    await settle_down()
    for group in (b"default", b"g"):
        assert sorted(await listed(world, group)) == sorted(last.values())
