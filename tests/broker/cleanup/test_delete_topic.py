"""Deleting a topic: exactly this one, at once, for good, and with nothing left behind."""

import asyncio

import pytest

from miniqueue.broker.cleanup import disk_space
from miniqueue.errors import InvalidTopicError, NothingOutstandingError, OutcomeUnknownError, UnavailableError
from miniqueue.storage.format import keys
from tests.broker.support import started_world
from tests.fakes import settle_down

MIB = 1 << 20


def keys_of(world, topic_id: int) -> list[bytes]:
    pairs = world.store.pairs()
    found = [key for start, stop in keys.of_topic(topic_id) for key in pairs if start <= key < stop]
    return found + [key for key in pairs if key == keys.purge(topic_id)]


async def fill(world, name: bytes) -> None:
    """Leave keys of every kind."""
    await world.publish_each(name, *(b"%d" % n for n in range(9)))
    await world.publish(name, b"x", b"y", b"z")
    holders = [await world.holding(name) for _ in range(10)]
    for settle in ("nack", "back", "close", "ack"):
        getattr(holders.pop(2).consumer, settle)()
    holders.pop().consumer.ack()
    holders.pop().consumer.dack(10)
    await world.commit()
    topic_id = world.broker._engine.topics.by_name[name].id
    assert {key[0] for key in keys_of(world, topic_id)} == {
        0x10,
        0x11,
        0x12,
        0x13,
        0x20,
        0x21,
    }


async def test_a_deleted_topic_is_gone_and_a_new_one_of_its_name_is_empty(world):
    await fill(world, b"t")
    assert await world.broker.delete_topic(b"t") is True
    assert world.broker.topics() == []
    await world.publish(b"t", b"new")
    assert await world.drain(b"t") == [b"new"]
    await world.restart()
    assert world.broker.topics() == [b"t"]
    assert await world.drain(b"t") == []


async def test_the_purge_leaves_no_key_and_gives_the_space_back(world):
    await fill(world, b"t")
    await fill(world, b"tt")
    await world.publish(b"t", bytes(disk_space.MIN_PURGED_BYTES))
    other = keys_of(world, 2)
    await world.broker.delete_topic(b"t")
    await settle_down()
    assert keys_of(world, 1) == []
    assert keys_of(world, 2) == other
    assert world.store.reclaimed == keys.of_topic(1)


async def test_small_topics_that_come_and_go_leave_no_work_behind(world):
    """Compacting takes longer than making and deleting a topic does."""
    before = len(asyncio.all_tasks())
    for _ in range(10):
        await fill(world, b"t")
        await world.broker.delete_topic(b"t")
    await settle_down()
    assert world.store.reclaimed == []
    assert len(asyncio.all_tasks()) == before


@pytest.mark.parametrize("name", [b"unknown", b"waited-for"])
async def test_deleting_what_does_not_exist_changes_nothing(name, world):
    consumer = world.consumer(b"waited-for")
    consumer.consumer.request()
    assert await world.broker.delete_topic(name) is False
    assert world.store.write_count == 0
    await world.publish(b"waited-for", b"a")
    assert consumer.payloads == [b"a"]


async def test_an_invalid_name_is_refused(world):
    with pytest.raises(InvalidTopicError):
        await world.broker.delete_topic(b"a/b")


async def test_consumers_that_wait_go_on_waiting(world):
    await world.publish(b"t", b"a")
    waiting = world.consumer(b"t")
    waiting.drain()
    await world.broker.delete_topic(b"t")
    assert waiting.consumer.is_waiting
    await world.publish(b"t", b"new")
    assert waiting.payloads == [b"a", b"new"]


@pytest.mark.parametrize("settle", ["ack", "nack", "back", "dack"])
async def test_settling_a_message_of_a_deleted_topic_never_touches_a_new_one(settle, world):
    await world.publish(b"t", b"old")
    holder = await world.holding(b"t")
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"new")
    with pytest.raises(NothingOutstandingError):
        getattr(holder.consumer, settle)(*([0] if settle == "dack" else []))
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.leased, stats.acknowledged) == (1, 0, 0)
    holder.consumer.request()
    assert holder.payloads == [b"old", b"new"]
    await world.commit()


async def test_leaving_with_a_message_of_a_deleted_topic_returns_nothing_and_leaves_no_topic(world):
    await world.publish(b"t", b"old")
    holder = await world.holding(b"t")
    await world.broker.delete_topic(b"t")
    holder.consumer.close()
    assert world.broker.stats() == {}
    await world.publish(b"t", b"new")
    assert await world.drain(b"t") == [b"new"]


async def test_a_publish_right_after_a_delete_survives_it(world):
    await world.publish(b"t", b"old")
    deleting = asyncio.ensure_future(world.broker.delete_topic(b"t"))
    await asyncio.sleep(0)
    commit = world.broker.publish(b"t", [b"new"]).commit
    assert await deleting
    await commit.wait()
    await settle_down()
    await world.restart()
    assert await world.drain(b"t") == [b"new"]


async def test_a_second_delete_is_answered_after_the_first_is_durable(world):
    await world.publish(b"t", b"old")
    world.store.may_write.clear()
    first = asyncio.ensure_future(world.broker.delete_topic(b"t"))
    await settle_down()
    second = asyncio.ensure_future(world.broker.delete_topic(b"t"))
    await settle_down()
    assert (first.done(), second.done()) == (False, False)
    world.store.may_write.set()
    assert await asyncio.gather(first, second) == [True, False]


async def test_a_publish_under_way_at_the_delete_is_answered_and_gone(world):
    await world.publish(b"t", b"older")
    world.store.may_write.clear()
    in_flight = world.broker.publish(b"t", [b"old"]).commit
    await settle_down()
    gathered = world.broker.publish(b"t", [b"old too"]).commit
    deleting = asyncio.ensure_future(world.broker.delete_topic(b"t"))
    await settle_down()
    world.store.may_write.set()
    assert await deleting
    await in_flight.wait()
    await gathered.wait()
    await settle_down()
    assert (keys_of(world, 1), world.broker.topics()) == ([], [])


async def test_delete_and_create_and_delete_in_one_commit(world):
    await world.publish(b"t", b"1")
    first = asyncio.ensure_future(world.broker.delete_topic(b"t"))
    await asyncio.sleep(0)
    world.broker.publish(b"t", [b"2"])
    second = asyncio.ensure_future(world.broker.delete_topic(b"t"))
    assert await asyncio.gather(first, second) == [True, True]
    await settle_down()
    assert world.broker.topics() == []
    assert keys_of(world, 1) + keys_of(world, 2) == []
    await world.restart()
    assert world.broker.topics() == []


async def test_deleting_while_messages_are_loaded_disturbs_nobody(world):
    await world.publish(b"t", b"old")
    await world.restart()
    consumer = world.consumer(b"t")
    consumer.consumer.request()  # a load begins ...
    deleting = asyncio.ensure_future(world.broker.delete_topic(b"t"))  # ... and the topic goes before it has run
    assert await deleting
    await world.publish(b"t", b"new")
    await settle_down()
    assert (consumer.payloads, consumer.errors) == ([b"new"], [])


async def test_a_topic_deleted_before_its_load_has_begun_is_no_error_of_the_broker(world):
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
    await world.publish(b"t", b"old")
    await world.restart()
    world.consumer(b"t").consumer.request()
    await world.broker.delete_topic(b"t")
    await settle_down()
    assert problems == []


async def test_a_topic_deleted_before_its_disk_space_is_given_back_is_no_error_of_the_broker(world):
    await world.publish(b"t", b"a")
    world.broker._engine.topics.by_name[b"t"].partitions[0].consumed_bytes = disk_space.MAX_CONSUMED_BYTES + 1
    world.broker.tick()
    await world.broker.delete_topic(b"t")
    await settle_down()
    assert world.store.reclaimed[0] == (keys.chunk(1, 0, 0), keys.chunk(1, 0, 0))
    assert not world.broker.failed.done()


async def test_a_backlog_that_is_read_gives_its_space_back_without_a_tick(monkeypatch):
    """A fast consumer consumes more in a second than should stay mapped."""
    monkeypatch.setattr(disk_space, "MAX_CONSUMED_BYTES_WHEN_FULL", 0)
    monkeypatch.setattr(disk_space, "MAX_CONSUMED_BYTES", MIB)

    async with started_world() as world:
        for _ in range(16):
            await world.publish(b"t", bytes(MIB))
        await world.restart()
        consumer = await world.holding(b"t")
        for _ in range(15):
            consumer.consumer.ack()
            await world.commit()
            consumer.consumer.request()
            await settle_down()
        assert len(world.store.reclaimed) >= 3
        assert {start for start, _ in world.store.reclaimed} == {keys.chunk(1, 0, 0)}


async def test_some_topics_in_a_tick_are_asked_for_space_and_each_in_its_turn(monkeypatch):
    monkeypatch.setattr(disk_space, "TOPICS_IN_TICK", 3)

    async with started_world() as world:
        for number in range(10):
            await world.publish(b"%d" % number, b"a")
        world.broker.tick()
        for number in range(0, 10, 2):
            partition = world.broker._engine.topics.by_name[b"%d" % number].partitions[0]
            partition.consumed_bytes = disk_space.MAX_CONSUMED_BYTES + 1
        ticks = 0
        while len(world.store.reclaimed) < 5:
            world.broker.tick()
            await settle_down()
            ticks += 1
        assert 5 <= ticks <= 10
        ids = {number: keys.chunk(topic.id, 0, 0) for number, topic in world.broker._engine.topics.by_name.items()}
        assert {start for start, _ in world.store.reclaimed} == {ids[b"%d" % number] for number in range(0, 10, 2)}


async def test_a_purge_that_was_broken_off_goes_on_after_a_restart(monkeypatch):
    monkeypatch.setattr(disk_space, "PAGE_ITEMS", 3)

    async with started_world() as world:
        await fill(world, b"t")
        store = world.store
        await world.broker.delete_topic(b"t")
        before = store.write_count
        await settle_down()
        complete = len(store.batches)
        assert complete > before + 3
        for count in range(before, complete + 1):  # the store as it was behind every write of the purge
            world.store = await store.as_of(count)
            await world.restart()
            await settle_down()
            assert keys_of(world, 1) == []
            assert set(world.store.pairs()) == {keys.NEXT_TOPIC}


async def test_a_delete_whose_commit_fails_says_so_and_leaves_what_the_store_has(world):
    await world.publish(b"t", b"a")
    world.store.fail_writes = {2}
    with pytest.raises(OutcomeUnknownError):
        await world.broker.delete_topic(b"t")
    await settle_down()
    assert world.broker.topics() == [b"t"]
    assert await world.drain(b"t") == [b"a"]


async def test_a_purge_whose_commit_fails_is_taken_up_again_after_the_reopening(world):
    await fill(world, b"t")
    world.store.fail_writes = {world.store.write_count + 2}
    await world.broker.delete_topic(b"t")
    await settle_down()
    await settle_down()
    assert keys_of(world, 1) == []


async def test_a_delete_is_refused_while_the_store_is_unusable(world):
    await world.publish(b"t", b"a")
    await world.broker.stop()
    with pytest.raises(UnavailableError):
        await world.broker.delete_topic(b"t")


async def test_topics_deleted_together_are_purged_from_the_lowest_on_in_few_commits(world):
    names = [b"t%d" % number for number in range(20)]
    for name in names:
        await world.publish_each(name, b"a", b"b")
    begun = len(world.store.batches)
    removals = [world.broker.delete_topic(name) for name in reversed(names)]
    await asyncio.gather(*removals)
    await settle_down()
    assert set(world.store.pairs()) == {keys.NEXT_TOPIC}
    purges = [keys.purge_topic_id(key) for batch in world.store.batches[begun + 1 :] for key in batch if key[0] == 4]
    assert purges == sorted(purges)
    assert len(world.store.batches) - begun <= 4  # the deletion, the first to be purged, the others


async def test_what_is_deleted_while_the_store_is_reopened_is_purged_all_the_same(world):
    for name in (b"t", b"u"):
        await fill(world, name)
    world.store.may_scan.clear()
    await world.broker.delete_topic(b"t")  # its purge hangs in a scan
    await settle_down()
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"v", b"a")
    world.store.may_scan.set()
    await settle_down()
    await world.broker.delete_topic(b"u")
    await settle_down()
    assert keys_of(world, 1) == keys_of(world, 2) == []
