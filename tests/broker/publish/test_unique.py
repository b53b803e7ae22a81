"""Unique keys: one message at a time has it, from its publish until it has left its topic, by whatever way."""

import asyncio

import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge, FromMessage
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import OutcomeUnknownError, TopicFullError, UnavailableError
from miniqueue.storage.format import keys
from tests.broker.support import world_with
from tests.fakes import FakeConsumer, FaultyStore, settle_down
from tests.tools.test_delayed_messages import problems_of

EU = PublishOptions(unique_key=b"eu")


async def published(world, options=EU, payload: bytes = b"a", topic: bytes = b"t") -> tuple[bytes, bool]:
    """Publish and wait; return the id, and whether it is a duplicate."""
    accepted = await world.broker.publish_unique(topic, payload, options)
    await accepted.commit.wait()
    return accepted.message_id, accepted.is_duplicate


def stored_keys(world) -> list[bytes]:
    return [key for key in world.store.pairs() if key[0] == keys.Space.UNIQUE]


async def test_one_message_has_the_key_as_long_as_it_waits(world):
    assert await published(world) == (b"0-0", False)
    assert await published(world, payload=b"b") == (b"0-0", True)
    assert await published(world, EU._replace(unique_key=b"us")) == (b"0-1", False)
    assert await published(world, topic=b"u") == (b"0-0", False)
    assert await world.drain(b"t") == [b"a", b"a"]
    assert await published(world, payload=b"c") == (b"0-2", False)


async def test_leased_and_returned_messages_have_their_keys_still(world):
    await published(world)
    holder = await world.holding(b"t")
    assert await published(world) == (b"0-0", True)
    for settle in (holder.consumer.nack, holder.consumer.back, lambda: holder.consumer.dack(0)):
        settle()
        await world.commit()
        assert await published(world) == (b"0-0", True)
        world.clock.advance(1)
        world.broker.tick()
        holder.consumer.request()
        await settle_down()
    holder.consumer.ack()
    assert await published(world) == (b"0-1", False)


async def test_a_key_is_free_the_moment_its_message_is_acknowledged_and_taken_again_in_the_same_commit(world):
    await published(world)
    (await world.holding(b"t")).consumer.ack()
    first = await world.broker.publish_unique(b"t", b"b", EU)
    second = await world.broker.publish_unique(b"t", b"c", EU)
    assert [(one.message_id, one.is_duplicate) for one in (first, second)] == [(b"0-1", False), (b"0-1", True)]
    await second.commit.wait()
    await world.restart()
    assert await published(world) == (b"0-1", True)
    assert await world.drain(b"t") == [b"b"]


async def acknowledge(world) -> None:
    await world.drain(b"t")


async def acknowledge_what_came_back(world) -> None:
    holder = await world.holding(b"t")
    holder.consumer.nack()
    await world.drain(b"t")


async def purge(world) -> None:
    assert await world.broker.purge(b"t") == 1


async def purge_what_came_back(world) -> None:
    (await world.holding(b"t")).consumer.back()
    assert await world.broker.purge(b"t") == 1


async def reject(world) -> None:
    world.broker.admin.replace(b"t", {"max_deliveries": 1})
    (await world.holding(b"t")).consumer.nack()


async def redrive_elsewhere(world) -> None:
    assert await world.broker.redrive(b"t", target=b"u") == 1


async def crowd_out(world) -> None:
    world.broker.admin.replace(b"t", {"max_messages": 1, "limit_policy": "drop-oldest"})
    await world.publish(b"t", b"new")
    await world.drain(b"t")


async def crowd_out_to_dead_letters(world) -> None:
    world.broker.admin.replace(b"t", {"max_messages": 1, "limit_policy": "dead-letter"})
    await world.publish(b"t", b"new")
    await world.drain(b"t")


async def delete(world) -> None:
    await world.broker.delete_topic(b"t")


WAYS = [
    acknowledge,
    acknowledge_what_came_back,
    purge,
    purge_what_came_back,
    reject,
    redrive_elsewhere,
    crowd_out,
    crowd_out_to_dead_letters,
    delete,
]


@pytest.mark.parametrize("leave", WAYS)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_key_is_free_when_its_message_has_left_by_whatever_way(leave, is_restarted, world):
    await published(world)
    if is_restarted:
        await world.restart()
    await leave(world)
    await world.commit()
    await settle_down()
    assert stored_keys(world) == []
    assert not (await published(world))[1]
    assert (await published(world))[1]


async def test_a_key_is_free_when_its_message_has_expired(world):
    await published(world, EU._replace(ttl_seconds=5))
    await world.restart()
    world.clock.advance(6)
    world.broker.tick()
    assert await world.drain(b"t") == []
    assert not (await published(world))[1]


async def test_a_dead_letter_leaves_its_key_behind_and_takes_none_when_it_goes_back(world):
    await published(world)
    await reject(world)
    assert await published(world, payload=b"b") == (b"0-1", False)
    assert await world.broker.redrive(b"t.dlq") == 1
    holders = [await world.holding(b"t") for _ in range(2)]
    holders[1].consumer.ack()  # the one that was a dead letter
    assert await published(world) == (b"0-1", True)
    holders[0].consumer.ack()
    assert not (await published(world))[1]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_message_that_has_expired_and_is_still_there_is_replaced_and_does_not_take_the_key_with_it(
    is_restarted, world
):
    await world.publish(b"t", b"in front")
    await published(world, EU._replace(ttl_seconds=5))
    assert await published(world) == (b"0-1", True)
    world.clock.advance(5)
    assert await published(world, payload=b"b") == (b"0-2", False)
    if is_restarted:
        await world.restart()
    assert await published(world) == (b"0-2", True)
    assert problems_of(world.store.pairs()) == []
    holder = await world.holding(b"t")
    holder.consumer.ack()
    holder.consumer.request()  # what has expired goes on the way
    await settle_down()
    assert await published(world) == (b"0-2", True)
    holder.consumer.ack()
    assert await published(world) == (b"0-3", False)


async def test_a_message_that_has_expired_while_somebody_holds_it_has_its_key(world):
    await published(world, EU._replace(ttl_seconds=5))
    holder = await world.holding(b"t")
    world.clock.advance(6)
    assert await published(world) == (b"0-0", True)
    holder.consumer.ack()
    assert await published(world) == (b"0-1", False)


async def test_a_replacement_that_there_is_no_room_for_leaves_the_key_where_it_was(world):
    await published(world, EU._replace(ttl_seconds=5))
    world.broker.admin.replace(b"t", {"max_messages": 1})
    world.clock.advance(6)
    with pytest.raises(TopicFullError):
        await published(world)
    await world.commit()
    assert len(stored_keys(world)) == 1
    world.broker.admin.replace(b"t", {})
    assert await published(world) == (b"0-1", False)
    assert len(stored_keys(world)) == 1


async def test_a_delayed_message_that_is_due_after_it_was_replaced_does_not_take_the_key_with_it(world):
    await published(world, EU._replace(delay_seconds=5.0, ttl_seconds=1))
    world.clock.advance(7)
    assert await published(world) == (b"0-0", False)
    world.broker.tick()
    await settle_down()
    assert await published(world) == (b"0-0", True)
    assert await world.drain(b"t") == [b"a"]
    assert not (await published(world))[1]
    assert problems_of(world.store.pairs()) == []


# --- groups ---------------------------------------------------------------------------------------------------


async def holding_in(world, group: bytes) -> FakeConsumer:
    """Return a consumer of a group that holds the next message."""
    consumer = FakeConsumer(world.broker, b"t", group)
    consumer.consumer.request()
    await settle_down()
    return consumer


async def test_a_group_that_seeks_leaves_the_keys_of_what_it_passes_over(world):
    await published(world)
    await published(world, EU._replace(unique_key=b"us"))
    holder = await world.holding(b"t")
    holder.consumer.nack()
    holder.consumer.close()
    await world.broker.groups.seek(b"t", b"default", FromMessage(0, 1))
    await settle_down()
    assert await published(world) == (b"0-2", False)
    assert await published(world, EU._replace(unique_key=b"us")) == (b"0-1", True)
    assert problems_of(world.store.pairs()) == []


async def test_a_message_that_a_group_went_back_to_does_not_take_the_key_of_another(world):
    await published(world)
    world.broker.admin.replace(b"t", {"retention": "forever"})
    await world.drain(b"t")
    await published(world, payload=b"b")
    await world.broker.groups.seek(b"t", b"default", Edge.EARLIEST)
    holder = await world.holding(b"t")
    assert problems_of(world.store.pairs()) == []
    holder.consumer.ack()
    assert await published(world) == (b"0-1", True)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_without_the_group_that_was_behind_a_key_is_free_when_the_next_is_done_with_it(is_restarted, world):
    await world.broker.groups.create(b"t", b"first")
    await world.broker.groups.create(b"t", b"second")
    for key in (b"done", b"held", b"back", b"waits"):
        await published(world, EU._replace(unique_key=key))
    done, _, back = [await holding_in(world, b"second") for _ in range(3)]
    done.consumer.ack()
    back.consumer.back()
    await world.commit()
    await world.broker.groups.delete(b"t", b"first")
    if is_restarted:
        await world.restart()
    await settle_down()
    outcomes = [await published(world, EU._replace(unique_key=key)) for key in (b"done", b"held", b"back", b"waits")]
    assert outcomes == [(b"0-4", False), (b"0-1", True), (b"0-2", True), (b"0-3", True)]
    assert problems_of(world.store.pairs()) == []


async def test_what_came_back_in_a_group_with_which_keys_do_not_go_is_no_matter(world):
    await world.broker.groups.create(b"t", b"first")
    await world.broker.groups.create(b"t", b"second")
    await published(world)
    (await holding_in(world, b"second")).consumer.nack()
    (await holding_in(world, b"first")).consumer.ack()
    await world.commit()
    assert stored_keys(world) == []
    assert problems_of(world.store.pairs()) == []


# --- delayed, and of a priority -------------------------------------------------------------------------------


async def test_a_delayed_message_has_its_key_and_keeps_it_when_it_is_due(world):
    first = b"0-1700000060000-1"
    assert await published(world, EU._replace(delay_seconds=60.0)) == (first, False)
    await world.restart()
    assert await published(world) == (first, True)
    world.clock.advance(61)
    world.broker.tick()
    await settle_down()
    assert await published(world) == (b"0-0", True)
    await world.restart()
    assert await published(world) == (b"0-0", True)
    assert await world.drain(b"t") == [b"a"]
    assert await published(world) == (b"0-1", False)


@pytest.mark.parametrize("is_purged", [False, True])
async def test_a_delayed_message_that_is_removed_has_its_key_no_more(is_purged, world):
    await published(world, EU._replace(delay_seconds=60.0))
    if is_purged:
        assert await world.broker.purge(b"t", State.DELAYED) == 1
    else:
        await world.broker.delayed.cancel(b"t", DelayedId(0, 1_700_000_060_000, 1))
    assert stored_keys(world) == []
    assert await published(world) == (b"0-0", False)


async def test_messages_of_a_priority_free_their_keys_too(world):
    assert await published(world, EU._replace(priority=Priority.HIGH)) == (b"0.high-0", False)
    await world.restart()
    assert await published(world) == (b"0.high-0", True)
    await world.drain(b"t")
    assert await published(world) == (b"0-0", False)


# --- the store ------------------------------------------------------------------------------------------------


class CountingStore(FaultyStore):
    """Counts looks for a key, lets others have a turn in each, and holds them back while `may_get` is cleared."""

    def __init__(self) -> None:
        super().__init__()
        self.get_count = 0
        self.may_get = asyncio.Event()
        self.may_get.set()

    async def scan(self, start: bytes, stop: bytes, *, max_items: int, max_bytes: int) -> list[tuple[bytes, bytes]]:
        pairs = await super().scan(start, stop, max_items=max_items, max_bytes=max_bytes)
        if start[0] == keys.Space.UNIQUE:
            self.get_count += 1
            await self.may_get.wait()
            await asyncio.sleep(0)
        return pairs


async def restart_on_counting_store(world) -> CountingStore:
    store = CountingStore()
    await store.write(world.store.pairs())
    world.store = store
    await world.restart()
    store.get_count = 0
    return store


async def test_a_publish_looks_once_and_one_that_comes_with_it_not_at_all(world):
    await published(world)
    store = await restart_on_counting_store(world)
    assert [found[1] for found in await asyncio.gather(*(published(world) for _ in range(5)))] == [True] * 5
    assert store.get_count <= 5
    store.get_count = 0
    found = await asyncio.gather(*(published(world, EU._replace(unique_key=b"new")) for _ in range(5)))
    assert store.get_count == 1
    assert sorted(is_duplicate for _, is_duplicate in found) == [False, True, True, True, True]
    assert len({message_id for message_id, _ in found}) == 1


async def test_memory_holds_no_key_but_of_the_last_commits(world):
    for number in range(50):
        await published(world, EU._replace(unique_key=b"%d" % number))
    keys_known = world.broker._engine.topics.by_name[b"t"].unique_keys
    assert sum(map(len, [keys_known.changed, *keys_known.writing])) <= 2
    assert await published(world, EU._replace(unique_key=b"7")) == (b"0-7", True)


async def test_a_message_acknowledged_during_the_look_frees_its_key(world):
    await published(world)
    store = await restart_on_counting_store(world)
    holder = await world.holding(b"t")
    store.may_get.clear()
    publish = asyncio.create_task(published(world, payload=b"b"))
    await settle_down()
    holder.consumer.ack()
    store.may_get.set()
    assert await publish == (b"0-1", False)
    assert await world.drain(b"t") == [b"b"]


async def test_a_topic_deleted_during_the_look_has_no_keys(world):
    await published(world)
    store = await restart_on_counting_store(world)
    store.may_get.clear()
    publish = asyncio.create_task(published(world, payload=b"b"))
    await settle_down()
    await world.broker.delete_topic(b"t")
    store.may_get.set()
    assert await publish == (b"0-0", False)


async def test_who_gives_up_during_the_look_leaves_the_key_to_the_next(world):
    await world.publish(b"t", b"plain")
    store = await restart_on_counting_store(world)
    store.may_get.clear()
    publishes = [asyncio.create_task(published(world)) for _ in range(3)]
    await settle_down()
    publishes[0].cancel()
    await settle_down()
    store.may_get.set()
    assert await publishes[1] == (b"0-1", False)
    assert await publishes[2] == (b"0-1", True)


# --- faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [False, True])
async def test_who_tries_again_after_an_unknown_outcome_neither_loses_nor_doubles(is_applied, world):
    await world.publish(b"t", b"first")
    world.store.fail_writes, world.store.applies_failed = {world.store.write_count + 1}, is_applied
    with pytest.raises(OutcomeUnknownError):
        await published(world)
    await settle_down()
    assert await published(world) == (b"0-1", is_applied)
    assert await world.drain(b"t") == [b"first", b"a"]
    assert not (await published(world))[1]


@pytest.mark.parametrize("is_applied", [False, True])
async def test_an_acknowledgement_that_may_be_lost_frees_the_key_only_if_it_is_not(is_applied, world):
    await published(world)
    (await world.holding(b"t")).consumer.ack()
    world.store.fail_writes, world.store.applies_failed = {world.store.write_count + 1}, is_applied
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    await settle_down()
    assert (await published(world, payload=b"c"))[1] is not is_applied
    assert await world.drain(b"t") == ([b"b", b"c"] if is_applied else [b"a"])


async def test_nothing_is_told_while_the_store_is_being_reopened(world):
    await published(world)
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    with pytest.raises(UnavailableError):
        await published(world)


async def test_after_every_crash_keys_and_messages_agree(world):
    store = world.store
    await published(world)
    await published(world, EU._replace(unique_key=b"us"), payload=b"us")
    (await world.holding(b"t")).consumer.ack()
    await published(world, payload=b"again")
    await world.commit()
    for batch_count in range(1, len(store.batches) + 1):
        world.store = await store.as_of(batch_count)
        await world.restart()
        waiting = await world.drain(b"t")
        assert len(waiting) == len(set(waiting))
        await world.commit()
        assert stored_keys(world) == []
    world.store = store


@world_with(limits=BrokerLimits(max_topic_messages=1, policy=LimitPolicy.REFUSE))
async def test_a_refusal_for_want_of_room_leaves_the_key_free(world):
    await world.publish(b"t", b"a")
    with pytest.raises(Exception, match="as many messages as it may"):
        await published(world)
    await world.drain(b"t")
    assert await published(world) == (b"0-1", False)
    assert await published(world) == (b"0-1", True)  # even if the topic is full


async def test_a_message_can_have_an_id_and_a_key(world):
    both = EU._replace(dedup_id=b"one")
    assert await published(world, both) == (b"0-0", False)
    await world.drain(b"t")
    assert await published(world, both) == (b"0-0", True)
    assert await published(world, both._replace(dedup_id=b"two")) == (b"0-1", False)
    assert await published(world, both._replace(dedup_id=b"three")) == (b"0-1", True)
