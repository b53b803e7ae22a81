"""Publishes with dedup ids: within its window, a second one adds nothing, and gets the first id when that is safe."""

import asyncio

import pytest

from miniqueue.broker.model.limits import BrokerLimits, Limit
from miniqueue.broker.publish import duplicates
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import DedupMismatchError, LimitReachedError, OutcomeUnknownError, PayloadTooLargeError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.storage.format import keys
from tests.broker.steady_loop import SteadyLoop
from tests.broker.support import started_world, world_with
from tests.fakes import settle_down
from tests.loops import on_loop

ONE = PublishOptions(dedup_id=b"one")
TWO = PublishOptions(dedup_id=b"two")


def publish(world, options=ONE, payload: bytes = b"a", topic: bytes = b"t"):
    return world.broker.publish_with(topic, payload, options)


async def published(world, *args, **options) -> tuple[bytes, bool]:
    """Publish and wait; return the id, and whether it is a duplicate."""
    accepted = publish(world, *args, **options)
    await accepted.commit.wait()
    return accepted.message_id, accepted.is_duplicate


def stored_ids(world) -> int:
    return sum(key[0] == keys.Space.DEDUP for key in world.store.pairs())


async def test_a_second_publish_with_an_id_adds_nothing_and_has_the_first_ones_id(world):
    await world.publish(b"t", b"plain")
    assert await published(world) == (b"0-1", False)
    assert await published(world, payload=b"another") == (b"0-1", True)
    assert await published(world, TWO) == (b"0-2", False)
    assert await world.drain(b"t") == [b"plain", b"a", b"a"]


async def test_ids_are_those_of_their_topic(world):
    assert await published(world) == (b"0-0", False)
    assert await published(world, topic=b"u") == (b"0-0", False)


async def test_a_duplicate_is_told_only_when_the_first_is_durable(world):
    world.store.may_write.clear()
    first = publish(world)
    same_commit = publish(world)
    await settle_down()
    under_way = publish(world)
    assert [one.is_duplicate for one in (first, same_commit, under_way)] == [False, True, True]
    assert not any(one.commit.is_done for one in (first, same_commit, under_way))
    world.store.may_write.set()
    await asyncio.gather(*(one.commit.wait() for one in (first, same_commit, under_way)))
    assert publish(world).commit.is_done
    assert await world.drain(b"t") == [b"a"]


async def test_an_id_is_forgotten_when_its_window_is_over_but_never_before(world):
    await published(world)
    world.clock.advance(119.999)
    world.broker.tick()
    assert await published(world) == (b"0-0", True)
    world.clock.advance(0.001)
    assert await published(world) == (b"0-1", False)


async def test_the_window_is_a_setting_of_the_topic(world):
    world.broker.admin.replace(b"t", {"dedup_window_seconds": 5})
    await published(world)
    world.clock.advance(6)
    assert await published(world) == (b"0-1", False)
    world.broker.admin.replace(b"t", {"dedup_window_seconds": 0})
    with pytest.raises(InvalidOptionError, match="dedup_window_seconds is 0"):
        publish(world)


async def test_restarts_change_nothing_of_that(world):
    await published(world)
    await published(world, TWO)
    await world.restart()
    assert await published(world) == (b"0-0", True)
    world.clock.advance(60)
    await world.restart()
    assert await published(world, TWO) == (b"0-1", True)
    world.clock.advance(60)
    await world.restart()
    assert await published(world) == (b"0-2", False)


async def test_what_is_over_is_deleted_from_the_store_and_from_memory(world):
    for number in range(5):
        await published(world, PublishOptions(dedup_id=b"%d" % number))
    assert stored_ids(world) == 5
    world.clock.advance(120)
    world.broker.tick()
    await world.commit()
    assert stored_ids(world) == 0
    world.broker.tick()
    assert world.broker._engine.topics.by_name[b"t"].dedup is None


async def test_what_is_over_is_deleted_a_part_in_each_tick(monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_FORGOTTEN_IN_TICK", 2)

    async with started_world() as world:
        for number in range(5):
            await published(world, PublishOptions(dedup_id=b"%d" % number))
        await world.restart()
        world.clock.advance(120)
        for left in (3, 1, 0):
            world.broker.tick()
            await world.commit()
            assert stored_ids(world) == left


async def test_the_ids_of_a_commit_are_one_value_whatever_their_number(world):
    accepted = [publish(world, PublishOptions(dedup_id=b"%d" % number)) for number in range(100)]
    await accepted[-1].commit.wait()
    assert stored_ids(world) == 1
    await world.restart()
    assert await published(world, PublishOptions(dedup_id=b"99")) == (b"0-99", True)


@world_with(limits=BrokerLimits(max_dedup_ids=2))
async def test_too_many_ids_are_refused_and_none_is_forgotten(world):
    await published(world)
    await published(world, TWO, topic=b"u")
    with pytest.raises(LimitReachedError, match="as many dedup ids"):
        publish(world, PublishOptions(dedup_id=b"three"))
    assert await published(world) == (b"0-0", True)
    await world.restart()
    with pytest.raises(LimitReachedError, match="as many dedup ids"):
        publish(world, PublishOptions(dedup_id=b"three"))
    await world.publish(b"t", b"plain")
    world.clock.advance(120)
    assert await published(world, PublishOptions(dedup_id=b"three")) == (b"0-2", False)

    assert world.broker.limit_counts.counts[Limit.DEDUP_IDS] == 1


async def test_duplicates_and_what_is_remembered_are_counted(world):
    for _ in range(3):
        await published(world)
    await published(world, TWO)
    stats = world.broker.stats()[b"t"]
    assert (stats.duplicates, stats.dedup_ids) == (2, 2)
    world.clock.advance(121)
    world.broker.tick()
    assert world.broker.stats()[b"t"].dedup_ids == 0


@world_with(limits=BrokerLimits(max_dedup_ids=1))
async def test_who_is_refused_often_has_the_topics_looked_through_now_and_then_only(world):
    await published(world)
    looks = []
    world.broker._publisher.duplicates._recount = lambda: looks.append(1)
    for _ in range(10):
        with pytest.raises(LimitReachedError):
            publish(world, TWO)
    assert len(looks) == 1


@world_with(max_message_bytes=4)
async def test_a_publish_that_is_refused_leaves_its_id_free(world):
    with pytest.raises(PayloadTooLargeError):
        publish(world, payload=b"too long")
    assert await published(world, payload=b"fits") == (b"0-0", False)


async def test_a_deleted_topic_has_lost_its_ids(world):
    await published(world)
    await world.broker.delete_topic(b"t")
    assert await published(world) == (b"0-0", False)
    await settle_down()
    assert stored_ids(world) == 1


@pytest.mark.parametrize(
    ("options", "message_id"),
    [
        (ONE._replace(priority=Priority.HIGH), b"0.high-0"),
        (ONE._replace(delay_seconds=60.0), b"0-1700000060000-1"),
    ],
)
async def test_delayed_ones_and_those_of_a_priority_have_their_own_ids(options, message_id, world):
    assert await published(world, options) == (message_id, False)
    await world.restart()
    assert await published(world, options) == (message_id, True)


# --- faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [False, True])
async def test_who_tries_again_after_an_unknown_outcome_neither_loses_nor_doubles(is_applied, world):
    await world.publish(b"t", b"first")
    world.store.fail_writes, world.store.applies_failed = {world.store.write_count + 1}, is_applied
    accepted, duplicate = publish(world), publish(world)
    for one in (accepted, duplicate):
        with pytest.raises(OutcomeUnknownError):
            await one.commit.wait()
    await settle_down()
    assert await published(world) == (b"0-1", is_applied)
    assert await published(world) == (b"0-1", True)
    assert await world.drain(b"t") == [b"first", b"a"]


@pytest.mark.parametrize("is_applied", [False, True])
async def test_the_same_of_a_batch_and_of_the_first_publish_to_a_topic(is_applied, world):
    world.store.fail_writes, world.store.applies_failed = {world.store.write_count + 1}, is_applied
    accepted = world.broker.publish_batch(b"t", [b"a", b"b"], b"one")
    with pytest.raises(OutcomeUnknownError):
        await accepted.commit.wait()
    await settle_down()
    accepted = world.broker.publish_batch(b"t", [b"a", b"b"], b"one")
    await accepted.commit.wait()
    assert (accepted.message_id, accepted.is_duplicate, accepted.message_count) == (b"0-0", is_applied, 2)
    assert await world.drain(b"t") == [b"a", b"b"]


@on_loop(SteadyLoop)
async def test_what_was_forgotten_by_a_commit_that_failed_is_read_again(world):
    # what is forgotten waits a moment for company: here for a publish, however slow
    await published(world)
    world.clock.advance(120)
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.tick()
    await settle_down()
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"b")
    await settle_down()
    world.broker.tick()
    await world.commit()
    assert stored_ids(world) == 0


async def test_after_every_crash_an_id_is_known_exactly_when_its_message_is_there(world):
    store = world.store
    for dedup_id in (b"x", b"y", b"z"):
        await published(world, PublishOptions(dedup_id=dedup_id), payload=dedup_id)
    for batch_count in range(len(store.batches) + 1):
        world.store = await store.as_of(batch_count)
        await world.restart()
        known = set(await world.drain(b"t"))
        for dedup_id in (b"x", b"y", b"z"):
            accepted = publish(world, PublishOptions(dedup_id=dedup_id))
            assert accepted.is_duplicate == (dedup_id in known)
            await accepted.commit.wait()
    world.store = store


# --- batches --------------------------------------------------------------------------------------------------


async def test_a_batch_is_added_once_with_ids_that_follow_each_other(world):
    await world.publish(b"t", b"plain")
    first = world.broker.publish_batch(b"t", [b"a", b"b", b"c"], b"batch")
    again = world.broker.publish_batch(b"t", [b"a", b"b", b"c"], b"batch")
    await again.commit.wait()
    await world.restart()
    later = world.broker.publish_batch(b"t", [b"a"], b"batch")
    await later.commit.wait()
    assert [(one.message_id, one.message_count) for one in (first, again, later)] == [(b"0-1", 3)] * 3
    assert [one.is_duplicate for one in (first, again, later)] == [False, True, True]
    assert await world.drain(b"t") == [b"plain", b"a", b"b", b"c"]


@world_with(max_message_bytes=4)
async def test_a_batch_that_is_refused_is_refused_as_a_whole(world):
    with pytest.raises(PayloadTooLargeError):
        world.broker.publish_batch(b"t", [b"fits", b"too long"], b"batch")
    assert world.broker.topics() == []
    accepted = world.broker.publish_batch(b"t", [b"fits"], b"batch")
    assert not accepted.is_duplicate


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_clock_that_was_ahead_for_a_moment_does_not_keep_ids(is_restarted, world):
    world.clock.advance(31_536_000)
    await published(world)
    world.clock.advance(-31_536_000)
    await published(world, TWO)
    world.broker.tick()
    if is_restarted:
        await world.restart()
    assert await published(world) == (b"0-0", True)
    world.clock.advance(121)
    world.broker.tick()
    await world.commit()
    assert stored_ids(world) == 0
    assert await published(world) == (b"0-2", False)


async def test_an_id_with_another_digest_adds_nothing_and_is_refused_also_after_a_restart():
    first, other = PublishOptions(dedup_id=b"one?digest=aa"), PublishOptions(dedup_id=b"one?digest=bb")

    async with started_world() as world:
        accepted = publish(world, first)
        with pytest.raises(DedupMismatchError):  # before the commit, too
            publish(world, other)
        await accepted.commit.wait()
        for _ in range(2):
            with pytest.raises(DedupMismatchError):
                publish(world, other, payload=b"b")
            with pytest.raises(DedupMismatchError):
                world.broker.publish_batch(b"t", [b"b"], other.dedup_id)
            assert await published(world, first) == (b"0-0", True)
            assert await published(world, ONE) == (b"0-0", True)
            await world.restart()
        assert await world.drain(b"t") == [b"a"]
        world.clock.advance(120)
        assert await published(world, other) == (b"0-1", False)
