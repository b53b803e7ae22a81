"""Purging topics by state and age: what goes, what stays, and that every commit on the way is whole."""

import asyncio

import pytest

from miniqueue.broker.cleanup import purge as clearing
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.topic import total
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.errors import InvalidDelayError, UnavailableError
from miniqueue.errors.requests import InvalidOptionError, UnknownTopicError
from tests.broker.inspect.test_peek import scatter
from tests.broker.support import World, started_world
from tests.fakes import settle_down
from tests.tools.test_audit_of_retention import problems_of


async def waiting(world, state):
    return [seen.stored.payload for seen in await world.broker.inspect.peek(b"t", state, 1000)]


READY = [b"6", b"4", b"8", b"9", b"10", b"11", b"1", b"12", b"13", b"3", b"14", b"15"]
DELAYED = [b"5", b"0"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("state", "ready", "delayed"), [(None, [], []), (State.READY, [], DELAYED), (State.DELAYED, READY, [])]
)
async def test_messages_go_by_state_and_leased_ones_stay(state, ready, delayed, is_restarted, world):
    holders = await scatter(world)
    if is_restarted:
        await world.restart()
    stays = ready if ready != READY or not is_restarted else [b"6", b"4", b"7", *READY[2:]]
    before = world.broker.inspect.depth(b"t")
    removed = await world.broker.purge(b"t", state)
    stats = world.broker.stats()[b"t"]
    assert stats.dropped == removed == before - world.broker.inspect.depth(b"t")
    assert await waiting(world, State.READY) == stays
    assert await waiting(world, State.DELAYED) == delayed
    assert await waiting(world, State.LEASED) == ([] if is_restarted else [b"7"])
    if not is_restarted:
        holders[7].consumer.nack()
        stays = [b"7", *stays]
    await world.restart()
    stats = world.broker.stats()[b"t"]
    assert stats.dropped == removed
    assert stats.size_bytes == sum(map(len, [*stays, *delayed]))
    assert await world.drain(b"t") == stays


async def test_messages_go_by_age(world):
    await world.publish(b"t", b"a", b"b")
    (await world.holding(b"t")).consumer.dack(100)
    world.clock.advance(10)
    await world.publish(b"t", b"c")
    (await world.holding(b"t")).consumer.back()
    assert await world.broker.purge(b"t", older_seconds=10.001) == 0
    assert await world.broker.purge(b"t", older_seconds=10) == 2
    assert await waiting(world, State.READY) == [b"c"]
    assert await waiting(world, State.DELAYED) == []


async def test_what_is_published_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(clearing, "MAX_RUNS_PER_COMMIT", 1)

    async with started_world() as world:
        await world.publish_each(b"t", b"a", b"b", b"c")
        world.store.may_write.clear()
        purge = world.broker._engine.tasks
        results = []

        async def purging():
            results.append(await world.broker.purge(b"t"))

        purge.spawn(purging())
        await settle_down()
        published = world.broker.publish(b"t", [b"d"])
        world.store.may_write.set()
        await settle_down()
        await published.commit.wait()
        assert results == [3]
        assert await world.drain(b"t") == [b"d"]


async def test_what_is_published_with_options_meanwhile_stays(monkeypatch):
    """Also what is to wait, and what is the first of its priority."""
    monkeypatch.setattr(clearing, "MAX_RUNS_PER_COMMIT", 1)
    later, first = PublishOptions(delay_seconds=60), PublishOptions(priority=Priority.HIGH)

    async with started_world() as world:
        await world.publish_each(b"t", b"a", b"b", b"c")
        await world.broker.publish_with(b"t", b"old", later).commit.wait()
        results = []

        async def purging():
            results.append(await world.broker.purge(b"t"))

        world.store.may_write.clear()
        world.broker._engine.tasks.spawn(purging())
        await settle_down()
        for payload, options in ((b"new", later), (b"high", first)):
            world.broker.publish_with(b"t", payload, options)
        world.store.may_write.set()
        await settle_down()
        assert results == [4]
        assert await world.drain(b"t") == [b"high"]
        assert await waiting(world, State.DELAYED) == [b"new"]


async def test_what_is_published_and_comes_back_meanwhile_stays(world):
    await world.publish_each(b"t", b"back", b"old")
    holder = await world.holding(b"t")
    holder.consumer.back()
    holder.consumer.close()
    results = []

    async def purging():
        results.append(await world.broker.purge(b"t"))

    world.store.may_scan.clear()
    world.broker._engine.tasks.spawn(purging())
    await settle_down()
    await world.publish(b"t", b"new")
    first, second = await world.holding(b"t"), await world.holding(b"t")
    assert first.payloads + second.payloads == [b"back", b"new"]
    second.consumer.nack()
    await world.commit()
    world.store.may_scan.set()
    await settle_down()
    assert results == [1]
    assert await world.drain(b"t") == [b"new"]


@pytest.mark.parametrize("batch", [1, 3])
async def test_every_commit_on_the_way_is_whole(monkeypatch, batch):
    monkeypatch.setattr(clearing, "MAX_RUNS_PER_COMMIT", batch)
    monkeypatch.setattr(clearing, "MAX_RECORDS_PER_COMMIT", batch)

    async with started_world() as world:
        await scatter(world)
        await world.commit()
        first = len(world.store.batches)
        removed = await world.broker.purge(b"t")
        last = len(world.store.batches)
        assert last - first >= removed // 4
        total = removed + 1  # the other message is leased
        for count in range(first, last + 1):
            after = World()
            after.store, after.clock = await world.store.as_of(count), world.clock
            broker = await after.start()
            after.clock.advance(100)
            broker.tick()
            stats = broker.stats()[b"t"]
            left = await after.drain(b"t")
            assert len(left) == len(set(left)) == total - stats.dropped
            assert stats.size_bytes == sum(map(len, left))
            after.clock.advance(-100)
            await broker.stop()


WIDE = {"partitions": 40}


async def fill_wide(world, *groups):
    await world.broker.admin.create(b"t", WIDE).wait()
    for group in groups:
        await world.broker.groups.create(b"t", group)
    for number in range(200):
        world.broker.publish_with(b"t", b"x", PublishOptions(key=b"%d" % number))
    await world.commit()


@pytest.mark.parametrize("settings", [{}, {"ordered": True}, {"trace": True}])
async def test_a_purge_of_many_partitions_takes_few_commits(settings, world):
    await fill_wide(world, b"a", b"b", b"c")
    await world.broker.admin.change(b"t", settings).wait()
    before = len(world.store.batches)
    assert await world.broker.purge(b"t") == 200
    assert len(world.store.batches) - before <= 2 * 4  # some for each group
    groups = world.broker._engine.topics.by_name[b"t"].groups.values()
    assert [(group.depth, total("dropped_count", group.cursors)) for group in groups] == [(0, 200)] * 4


async def test_a_purge_looks_at_no_partition_without_messages(world):
    await world.broker.admin.create(b"t", WIDE).wait()
    before = len(world.store.batches)
    assert await world.broker.purge(b"t") == 0
    assert len(world.store.batches) == before


@pytest.mark.parametrize("change", ["delete", "create again", "seek", "cancel"])
async def test_a_purge_of_many_partitions_is_interrupted(change, monkeypatch):
    monkeypatch.setattr(clearing, "MAX_RUNS_PER_COMMIT", 30)  # so that each commit has some of the partitions
    async with started_world() as world:
        await fill_wide(world)
        world.store.may_write.clear()
        purge = asyncio.create_task(world.broker.purge(b"t"))
        await settle_down()
        removed = 200 - world.broker.inspect.depth(b"t")
        assert 0 < removed < 200
        if change == "cancel":
            purge.cancel()
        elif change == "seek":
            moved = asyncio.create_task(world.broker.groups.seek(b"t", b"default", Edge.LATEST))
        else:
            moved = asyncio.create_task(world.broker.delete_topic(b"t"))
        await settle_down()
        if change == "create again":
            world.broker.admin.create(b"t", WIDE)
            world.broker.publish(b"t", [b"new"])
        world.store.may_write.set()
        if change == "cancel":
            with pytest.raises(asyncio.CancelledError):
                await purge
            assert world.broker.inspect.depth(b"t") == 200 - removed
        else:
            assert removed <= await purge <= 200
            await moved
            assert (b"t" in world.broker.stats()) is (change != "delete")
        if change == "create again":
            assert await world.drain(b"t") == [b"new"]
        assert problems_of(world.store.pairs()) == []
        assert not world.broker.failed.done()


async def test_a_long_backlog_is_loaded_page_by_page(world):
    for _ in range(30):
        await world.publish(b"t", *[b"x" * 1000] * 500)
    await world.restart()
    assert await world.broker.purge(b"t") == 15_000
    assert world.broker.inspect.depth(b"t") == 0
    await world.publish(b"t", b"y")
    assert await world.drain(b"t") == [b"y"]


async def test_consumers_that_wait_and_a_purge_do_not_disturb_each_other(world):
    for _ in range(10):
        await world.publish(b"t", *[b"x" * 1000] * 500)
    await world.restart()
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    assert await world.broker.purge(b"t") == 4_999
    assert consumer.payloads == [b"x" * 1000]
    consumer.consumer.nack()
    assert await world.drain(b"t") == [b"x" * 1000]


async def test_a_purge_ends_with_its_topic(world):
    for _ in range(10):
        await world.publish(b"t", *[b"x" * 1000] * 500)
    await world.restart()
    world.store.may_scan.clear()
    results = []

    async def purging():
        results.append(await world.broker.purge(b"t"))

    world.broker._engine.tasks.spawn(purging())
    await settle_down()
    removal = world.broker.delete_topic(b"t")
    world.store.may_scan.set()
    await removal
    await settle_down()
    assert results == [0]


async def test_a_store_that_fails_breaks_a_purge_off(world):
    await world.publish(b"t", b"a", b"b")
    world.store.fail_writes = {world.store.write_count + 1}
    with pytest.raises(UnavailableError):
        await world.broker.purge(b"t")
    await settle_down()
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_what_cannot_be_purged(world):
    with pytest.raises(UnknownTopicError):
        await world.broker.purge(b"t")
    await world.publish(b"t", b"a")
    with pytest.raises(InvalidOptionError):
        await world.broker.purge(b"t", State.LEASED)
    for seconds in (-1, float("nan"), float("inf")):
        with pytest.raises(InvalidDelayError):
            await world.broker.purge(b"t", older_seconds=seconds)


async def test_what_is_settled_while_a_purge_reads_it_is_not_purged_too(world):
    """Else it counts twice, and the topic holds less than nothing."""
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    holder.consumer.nack()
    await world.commit()
    world.store.may_scan.clear()
    purging = asyncio.create_task(world.broker.purge(b"t"))
    await settle_down()
    holder.consumer.request()
    holder.consumer.ack()
    await world.commit()
    world.store.may_scan.set()
    assert await purging == 0
    stats = world.broker.stats()[b"t"]
    assert (stats.acknowledged, stats.dropped, stats.ready, stats.size_bytes) == (1, 0, 0, 0)


async def test_a_purge_goes_on_when_what_somebody_else_reads_is_there(world):
    await world.publish_each(b"t", b"a", b"b", b"c")
    await world.restart()
    world.store.may_scan.clear()
    waiting = world.consumer(b"t")
    waiting.consumer.request()  # begins to read
    await settle_down()
    purge = asyncio.create_task(world.broker.purge(b"t"))
    await settle_down()
    assert not purge.done()
    world.store.may_scan.set()
    assert await purge == 2
    assert waiting.payloads == [b"a"]


async def test_a_purge_of_a_topic_that_is_deleted_while_somebody_reads_it_ends(world):
    await world.publish_each(b"t", b"a", b"b")
    await world.restart()
    world.store.may_scan.clear()
    world.consumer(b"t").consumer.request()
    await settle_down()
    purge = asyncio.create_task(world.broker.purge(b"t"))
    await settle_down()
    await world.broker.delete_topic(b"t")
    await settle_down()
    world.store.may_scan.set()
    assert await purge == 0
