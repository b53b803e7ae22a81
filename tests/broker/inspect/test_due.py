"""Delayed messages that become due: they have one state at a time, whoever asks for it."""

import random

import pytest

from miniqueue.broker.inspect import due_counting
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.views import stats_of
from miniqueue.core.options.publish import PublishOptions
from tests.broker.support import World, run, started_world
from tests.fakes import settle_down

T = b"t"


async def counts(world: World) -> tuple[int, int]:
    """Return how many messages are ready and delayed, which all who tell it must agree on."""
    figures = await world.broker.inspect.stats(T)
    (group,) = [group async for group in world.broker.groups.figures(T)]
    one = await world.broker.groups.figures_of(T, b"default")
    (topic,) = [topic async for topic in world.broker.inspect.existing()]
    seen = [len(await world.broker.inspect.peek(T, state, 1000)) for state in (State.READY, State.DELAYED)]
    assert group == one
    stats = stats_of(topic)
    unpublished = stats.delayed - group.delayed  # what was published with a delay is of no group yet
    assert (stats.ready, stats.delayed) == (group.ready, group.delayed + unpublished) == tuple(seen)
    assert (figures["ready"], figures["delayed"]) == tuple(seen)
    return stats.ready, stats.delayed


async def tick(world: World) -> None:
    world.broker.tick()
    for _ in range(4):
        await settle_down()


@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_message_that_came_back_is_delayed_until_a_tick_has_made_it_ready(is_restarted, is_ordered, world):
    await world.broker.admin.create(T, {"ordered": is_ordered}).wait()
    await world.publish(T, b"a", b"b")
    (await world.holding(T)).consumer.dack(5)
    (await world.holding(T)).consumer.dack(60)
    world.clock.advance(4)
    if is_restarted:
        await world.restart()
    world.clock.advance(1)  # it is due, and no tick has found it
    assert await counts(world) == (0, 2)
    seen = await world.broker.inspect.find(T, (0, 0))
    assert (seen.state, seen.due_at_ms) == (State.DELAYED, world.clock.now_ms())
    assert await world.broker.purge(T, State.READY) == 0
    await tick(world)
    assert await counts(world) == (1, 1)
    seen = await world.broker.inspect.find(T, (0, 0))
    assert (seen.state, seen.due_at_ms) == (State.READY, None)
    assert await world.drain(T) == [b"a"]
    assert await counts(world) == (0, 1)


async def test_a_message_that_was_published_with_a_delay_is_delayed_until_a_tick_has_made_it_ready(world):
    accepted = world.broker.publish_with(T, b"a", PublishOptions(delay_seconds=5))
    await accepted.commit.wait()
    world.clock.advance(5)
    assert await counts(world) == (0, 1)
    assert await world.broker.purge(T, State.READY) == 0
    await tick(world)
    assert await counts(world) == (1, 0)
    assert await world.broker.purge(T, State.DELAYED) == 0


async def test_after_the_clock_was_set_back_messages_are_delayed_again(world):
    await world.publish(T, b"a")
    (await world.holding(T)).consumer.dack(5)
    world.clock.advance(5)
    await tick(world)
    assert await counts(world) == (1, 0)
    world.clock.advance(-3)
    await tick(world)
    assert await counts(world) == (0, 1)
    world.clock.advance(3)
    await tick(world)
    assert await counts(world) == (1, 0)


async def test_a_message_that_is_due_is_read_once_to_be_counted(monkeypatch):
    monkeypatch.setattr(due_counting, "PAGE_ITEMS", 10)

    async with started_world() as world:
        await world.publish(T, *[b"%d" % n for n in range(95)])
        consumer = world.broker.consumer(T, [].extend, lambda _: None, prefetch=95)
        consumer.request()
        consumer.dack(5, range(1, 96))
        consumer.close()
        await world.commit()
        world.clock.advance(5)
        await tick(world)
        assert await counts(world) == (95, 0)
        before = world.store.scan_count
        assert [stats_of(topic).ready async for topic in world.broker.inspect.existing()] == [95]
        assert world.store.scan_count == before
        world.clock.advance(1)
        await tick(world)
        assert [stats_of(topic).ready async for topic in world.broker.inspect.existing()] == [95]
        assert world.store.scan_count == before  # memory knows that nothing more is due


def count_flushes(world: World) -> list:
    """Return a list that gets an item with each flush of the open commit."""
    flushes, flush = [], world.broker._engine.journal.committer.flush

    async def counted() -> None:
        flushes.append(flush)
        await flush()

    world.broker._engine.journal.committer.flush = counted
    return flushes


@pytest.mark.parametrize("settings", [{}, {"ordered": True}, {"fair": True}])
async def test_a_look_flushes_once_for_each_topic_in_which_messages_have_become_due(settings, world):
    names = [b"t%d" % number for number in range(3)]
    for name in names:
        await world.broker.admin.create(name, {"partitions": 8, **settings}).wait()
        for group in (b"a", b"b"):
            await world.broker.groups.create(name, group)
    for name in names:
        for number in range(40):
            await world.broker.publish_with(name, b"x", PublishOptions(key=b"%d" % number)).commit.wait()
        await delay_all(world, name, 60 if name == b"t2" else 5)
    await world.commit()
    world.clock.advance(5)
    await tick(world)
    flushes = count_flushes(world)
    assert await ready_counts(world) == [40, 40, 0]
    assert len(flushes) == 2  # none for the topic in which nothing is due
    for _ in range(3):
        world.clock.advance(1)
        await tick(world)
        del flushes[:]
        scan_count = world.store.scan_count
        assert await ready_counts(world) == [40, 40, 0]
        assert (len(flushes), world.store.scan_count) == (0, scan_count)


async def delay_all(world: World, name: bytes, seconds: int) -> None:
    """Return all messages of a topic to all its groups, with a delay."""
    for group in (b"default", b"a", b"b"):
        leases: list = []
        consumer = world.broker.consumer(name, leases.extend, print, prefetch=100, group=group)
        consumer.request()
        await settle_down()
        assert sum(lease.count for lease in leases) == 40
        consumer.dack(seconds, [one for lease in leases for one in range(lease.receipt, lease.receipt + lease.count)])
        consumer.close()


async def ready_counts(world: World) -> list[int]:
    return [stats_of(topic).ready async for topic in world.broker.inspect.existing()]


@pytest.mark.slow
@pytest.mark.parametrize("is_ordered", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_all_figures_agree_whatever_happens(seed, is_ordered, monkeypatch):
    monkeypatch.setattr(due_counting, "PAGE_ITEMS", 3)
    chosen = random.Random(seed)

    async def act(world: World, held: list) -> None:
        kind = chosen.choice(("publish", "take", "dack", "dack", "ack", "nack", "pass", "tick", "purge", "restart"))
        if kind == "publish":
            await world.publish(T, *[b"x"] * chosen.randint(1, 5))
        elif kind == "take":
            consumer = world.consumer(T)
            consumer.consumer.request()
            await settle_down()
            if consumer.leases:
                held.append(consumer)
            else:
                consumer.consumer.close()
        elif kind in ("dack", "ack", "nack") and held:
            consumer = held.pop(chosen.randrange(len(held)))
            arguments = [chosen.randint(1, 9)] if kind == "dack" else []
            getattr(consumer.consumer, kind)(*arguments)
            consumer.consumer.close()
        elif kind == "pass":
            world.clock.advance(chosen.randint(-2, 6))
        elif kind == "tick":
            await tick(world)
        elif kind == "purge" and chosen.random() < 0.1:
            await world.broker.purge(T, chosen.choice((State.READY, State.DELAYED)), chosen.randint(0, 9))
        elif kind == "restart" and chosen.random() < 0.2:
            held.clear()
            await world.restart()

    async def body(world):
        await world.broker.admin.create(T, {"ordered": is_ordered}).wait()
        held: list = []
        for _ in range(150):
            await act(world, held)
            if chosen.random() < 0.5:
                await counts(world)

    run(body)
