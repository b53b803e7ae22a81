"""Groups: each has every message, and what one does the others do not see."""

import asyncio

import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge, FromMessage, FromMessages, FromTime
from miniqueue.errors.requests import (
    GroupExistsError,
    GroupInUseError,
    InvalidOptionError,
    UnknownGroupError,
    UnknownPartitionError,
)
from miniqueue.storage.format import keys
from miniqueue.storage.format.keys import Space
from tests.broker.support import World
from tests.fakes import START_MS, settle_down


async def receive(world: World, group: bytes, count: int = 100) -> list[tuple[bytes, bytes]]:
    """Return receipts and payloads of what a group has at once."""
    taken = []
    while True:
        answers = []
        options = ReceiveOptions(count, group=group)
        receiving = world.broker.leases.receive(b"t", options, answers.append, answers.append)
        await settle_down()
        receiving.give_up()
        leases = [
            (b"%b%d" % (answers[0].prefix, receipt), payload)
            for _, lease in answers[0].leases
            for receipt, payload in enumerate(lease.payloads, lease.receipt)
        ]
        if not leases:
            return taken
        taken += leases


async def payloads(world: World, group: bytes) -> list[bytes]:
    """Receive and acknowledge all; return it."""
    taken = await receive(world, group)
    if taken:
        assert all(world.broker.leases.ack(b"t", [receipt for receipt, _ in taken]))
    await world.commit()
    return [payload for _, payload in taken]


def chunk_count(world: World) -> int:
    return sum(key[0] == Space.CHUNK for key in world.store.pairs())


async def lag(world: World, group: bytes) -> int:
    return (await world.broker.groups.figures_of(b"t", group)).lag


async def test_every_group_has_every_message(world):
    await world.broker.groups.create(b"t", b"a")
    await world.broker.groups.create(b"t", b"b")
    await world.publish_each(b"t", b"1", b"2")
    assert await payloads(world, b"a") == [b"1", b"2"]
    assert chunk_count(world) == 2
    assert await payloads(world, b"b") == [b"1", b"2"]
    assert chunk_count(world) == 0


async def test_what_one_group_does_no_other_sees(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish(b"t", b"1", b"2", b"3")
    taken = await receive(world, b"a")
    world.broker.leases.nack(b"t", [taken[2][0]])
    world.broker.leases.dack(b"t", [taken[1][0]], 60)
    await world.commit()
    a, b = [group async for group in world.broker.groups.figures(b"t")]
    assert (a.ready, a.leased, a.delayed, a.lag) == (1, 1, 1, 3)
    assert (b.ready, b.leased, b.delayed, b.lag) == (3, 0, 0, 3)
    assert await payloads(world, b"b") == [b"1", b"2", b"3"]
    assert [payload for _, payload in await receive(world, b"a")] == [b"3"]


async def test_a_group_is_made_by_its_first_use_and_begins_with_the_earliest_message(world):
    await world.publish_each(b"t", b"1", b"2", b"3")
    assert await payloads(world, b"default") == [b"1", b"2", b"3"]
    await world.publish_each(b"t", b"4", b"5")
    assert await payloads(world, b"late") == [b"4", b"5"]
    assert await lag(world, b"default") == 2
    await world.restart()
    assert await payloads(world, b"default") == [b"4", b"5"]
    assert await payloads(world, b"late") == []


async def test_who_waits_in_a_group_of_a_topic_to_come_is_served_and_there_is_no_default_group(world):
    answers = []
    options = ReceiveOptions(1, wait_seconds=5, group=b"a")
    world.broker.leases.receive(b"t", options, answers.append, answers.append)
    await world.publish(b"t", b"1")
    await settle_down()
    assert answers[0].leases[0][1].payloads == [b"1"]
    assert [figures.name async for figures in world.broker.groups.figures(b"t")] == [b"a"]


async def test_a_topic_that_is_published_to_first_has_the_default_group(world):
    await world.publish(b"t", b"1")
    assert [figures.name async for figures in world.broker.groups.figures(b"t")] == [b"default"]


async def test_a_group_begins_where_it_is_told(world):
    for number in range(5):
        await world.publish(b"t", b"%d" % (2 * number), b"%d" % (2 * number + 1))
        world.clock.advance(10)
    starts = {
        b"latest": Edge.LATEST,
        b"message": FromMessage(0, 7),
        b"time": FromTime(world.clock.now_ms() - 20_000),
    }
    for group, start in starts.items():
        await world.broker.groups.create(b"t", group, start)
    lags = {figures.name: figures.lag async for figures in world.broker.groups.figures(b"t")}
    assert lags == {b"default": 10, b"latest": 0, b"message": 3, b"time": 4}
    await world.restart()
    await world.publish(b"t", b"new")
    assert await payloads(world, b"latest") == [b"new"]
    assert await payloads(world, b"message") == [b"7", b"8", b"9", b"new"]
    assert await payloads(world, b"time") == [b"6", b"7", b"8", b"9", b"new"]


async def test_bytes_are_counted_from_where_a_group_begins(world):
    await world.publish_each(b"t", b"1", b"22", b"333", b"4444")
    taken = await receive(world, b"default")
    world.broker.leases.ack(b"t", [taken[2][0]])  # a hole behind what is not settled
    await world.commit()
    await world.broker.groups.create(b"t", b"a", FromMessage(0, 1))
    world.broker.leases.ack(b"t", [receipt for receipt, _ in taken])
    await world.commit()
    assert world.broker.stats()[b"t"].size_bytes == 6
    assert await payloads(world, b"a") == [b"22", b"4444"]
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.size_bytes, stats.dropped) == (0, 0, 0)
    assert chunk_count(world) == 0


async def test_what_was_finished_before_a_restart_behind_an_open_message_is_deleted_when_all_are_done(world):
    await world.broker.groups.create(b"t", b"a")
    await world.broker.groups.create(b"t", b"b")
    await world.publish_each(b"t", b"1", b"2", b"3")
    taken = await receive(world, b"a")
    world.broker.leases.ack(b"t", [taken[1][0]])
    await world.restart()
    assert await payloads(world, b"b") == [b"1", b"2", b"3"]
    assert chunk_count(world) == 2
    assert await payloads(world, b"a") == [b"1", b"3"]
    assert chunk_count(world) == 0


async def test_a_seek_goes_back_and_forth_and_a_dry_run_only_counts(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish_each(b"t", b"1", b"2", b"3", b"4")
    taken = await receive(world, b"a")
    world.broker.leases.nack(b"t", [taken[0][0]])
    world.broker.leases.ack(b"t", [taken[1][0]])
    assert await world.broker.groups.seek(b"t", b"a", Edge.EARLIEST, is_dry=True) == (3, 4)
    assert await lag(world, b"a") == 3
    assert await world.broker.groups.seek(b"t", b"a", Edge.EARLIEST) == (3, 4)
    assert world.broker.leases.ack(b"t", [taken[2][0]]) == [False]
    assert await payloads(world, b"a") == [b"1", b"2", b"3", b"4"]
    assert await world.broker.groups.seek(b"t", b"a", FromMessage(0, 2)) == (0, 2)
    await world.restart()
    assert await payloads(world, b"a") == [b"3", b"4"]
    assert await world.broker.groups.seek(b"t", b"b", Edge.LATEST) == (4, 0)
    await settle_down()
    assert chunk_count(world) == 0


@pytest.mark.parametrize("start", [FromMessage(0, 3), FromMessages({0: 3}), FromMessage(0, 1 << 60)])
async def test_a_group_cannot_go_to_a_message_that_was_never_published(start, world):
    await world.publish_each(b"t", b"1", b"2")
    for is_dry in (True, False):
        with pytest.raises(InvalidOptionError, match="ends before 0-2"):
            await world.broker.groups.seek(b"t", b"default", start, is_dry=is_dry)
    with pytest.raises(InvalidOptionError):
        await world.broker.groups.create(b"t", b"a", start)
    with pytest.raises(InvalidOptionError):
        await world.broker.groups.create(b"new", b"a", start)
    assert world.broker.topics() == [b"t"]
    assert [one.name async for one in world.broker.groups.figures(b"t")] == [b"default"]
    assert await lag(world, b"default") == 2
    with pytest.raises(UnknownPartitionError):
        await world.broker.groups.seek(b"t", b"default", FromMessage(1, 0))


@pytest.mark.parametrize("start", [FromMessage(0, 2), FromMessages({0: 2}), FromTime(START_MS + 1)])
async def test_a_group_may_go_to_the_next_message(start, world):
    await world.publish_each(b"t", b"1", b"2")
    assert await world.broker.groups.seek(b"t", b"default", start) == (2, 0)
    await world.broker.groups.create(b"new", b"a", FromMessage(0, 0))
    await world.publish(b"t", b"3")
    assert await payloads(world, b"default") == [b"3"]


async def test_a_deleted_group_leaves_nothing_behind_and_gives_its_messages_back(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish_each(b"t", b"1", b"2", b"3")
    taken = await receive(world, b"a")
    world.broker.leases.nack(b"t", [taken[0][0]])
    world.broker.leases.ack(b"t", [taken[1][0]])
    await payloads(world, b"b")
    assert chunk_count(world) == 1
    await world.broker.groups.delete(b"t", b"a")
    await settle_down()
    kept = {Space(key[0]).name for key in world.store.pairs()}
    assert kept == {"NEXT_TOPIC", "TOPIC", "HEAD", "CURSOR", "GROUP"}
    with pytest.raises(UnknownGroupError):
        await world.broker.groups.delete(b"t", b"a")
    await world.restart()
    await world.publish(b"t", b"4")
    assert await payloads(world, b"a") == [b"4"]


async def test_what_is_left_of_a_group_is_deleted_after_a_crash(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish_each(b"t", b"1", b"2", b"3")
    await payloads(world, b"b")
    before = len(world.store.batches)
    await world.broker.groups.delete(b"t", b"a")
    await settle_down()
    complete = len(world.store.batches)
    assert complete > before + 1
    for count in range(before + 1, complete + 1):
        world.store = await world.store.as_of(count) if count < complete else world.store
        await world.start()
        assert chunk_count(world) == 0
        assert not any(key[0] == Space.GROUP_PURGE for key in world.store.pairs())


async def test_the_default_group_can_go_and_come_back(world):
    await world.publish(b"t", b"1")
    await world.broker.groups.create(b"t", b"a")
    await world.broker.groups.delete(b"t", b"default")
    await world.publish(b"t", b"2")
    assert [figures.name async for figures in world.broker.groups.figures(b"t")] == [b"a"]
    await world.restart()
    assert await payloads(world, b"a") == [b"1", b"2"]
    await world.publish(b"t", b"3")
    assert await world.drain(b"t") == [b"3"]
    await world.restart()
    assert [figures.name async for figures in world.broker.groups.figures(b"t")] == [b"a", b"default"]


async def test_a_group_that_is_in_use_or_the_last_is_not_deleted(world):
    await world.publish(b"t", b"1")
    with pytest.raises(GroupInUseError):
        await world.broker.groups.delete(b"t", b"default")
    await world.broker.groups.create(b"t", b"a")
    with pytest.raises(GroupExistsError):
        await world.broker.groups.create(b"t", b"a")
    consumer = world.consumer(b"t")
    with pytest.raises(GroupInUseError):
        await world.broker.groups.delete(b"t", b"default")
    consumer.consumer.close()
    await world.broker.groups.delete(b"t", b"default")


async def test_a_consumer_reads_with_a_group(world):
    await world.publish(b"t", b"1")
    leases = []
    consumer = world.broker.consumer(b"t", leases.extend, leases.append, group=b"a")
    consumer.request()
    await settle_down()
    assert [lease.payloads for lease in leases] == [[b"1"]]
    consumer.ack()
    consumer.close()
    assert await lag(world, b"a") == 0
    assert await lag(world, b"default") == 1


async def test_a_group_that_was_not_stored_is_gone_after_a_fault_and_made_again_for_who_waits(world):
    await world.publish(b"t", b"1")
    world.store.fail_writes = {world.store.write_count + 1}
    answers = []
    options = ReceiveOptions(1, wait_seconds=5, group=b"a")
    world.broker.leases.receive(b"t", options, answers.append, answers.append)
    world.broker.publish(b"t", [b"2"])
    for _ in range(5):
        await settle_down()
    assert answers[0].leases[0][1].payloads == [b"1"]
    assert (await lag(world, b"default"), await lag(world, b"a")) == (1, 1)
    await world.restart()
    assert await payloads(world, b"a") == [b"1"]


async def test_messages_of_a_priority_go_to_every_group_and_a_group_may_begin_in_them(world):
    for priority in (Priority.LOW, Priority.HIGH):
        world.broker.publish_with(b"t", priority.encode(), PublishOptions(priority=priority))
        await world.commit()
        world.clock.advance(1)
    await world.broker.groups.create(b"t", b"a", FromMessage(2 << 16, 0))
    await world.broker.groups.create(b"t", b"b", FromMessage(1 << 16, 0))
    assert await payloads(world, b"a") == [b"high", b"low"]
    assert await payloads(world, b"b") == [b"high"]
    await world.restart()
    assert await payloads(world, b"b") == []
    assert await payloads(world, b"default") == [b"high", b"low"]
    assert chunk_count(world) == 0


async def test_a_chunk_that_is_finished_while_a_group_begins_is_there_for_it_or_deleted(world):
    await world.publish_each(b"t", b"1", b"2", b"3")
    taken = await receive(world, b"default")
    world.store.may_write.clear()
    world.broker.leases.ack(b"t", [taken[0][0]])
    making = asyncio.create_task(world.broker.groups.create(b"t", b"a", FromMessage(0, 1)))
    await settle_down()
    world.broker.leases.ack(b"t", [taken[0][0], taken[1][0]])
    world.store.may_write.set()
    await making
    await world.commit()
    assert await payloads(world, b"a") == [b"3"]
    world.broker.leases.ack(b"t", [taken[2][0]])
    await world.commit()
    assert chunk_count(world) == 0
    assert keys.chunk(1, 0, 1) not in world.store.pairs()


async def test_a_topic_is_as_full_as_its_last_group(world):
    await world.publish(b"t", b"1", b"2")
    await world.broker.groups.create(b"t", b"a", Edge.LATEST)
    assert world.broker.inspect.depth(b"t") == 2
    await payloads(world, b"default")
    await world.publish(b"t", b"3")
    await payloads(world, b"default")
    assert world.broker.inspect.depth(b"t") == 1
    assert world.broker.stats()[b"t"].acknowledged == 3


async def test_a_look_is_into_one_group(world):
    await world.publish(b"t", b"1", b"2")
    await world.broker.groups.create(b"t", b"a")
    await receive(world, b"a", 1)
    assert [one.stored.payload for one in await world.broker.inspect.peek(b"t")] == [b"1", b"2"]
    assert [one.state for one in await world.broker.inspect.peek(b"t", State.LEASED, group=b"a")] == [State.LEASED] * 2
    assert (await world.broker.inspect.find(b"t", (0, 1), b"a")).state is State.LEASED
    with pytest.raises(UnknownGroupError):
        await world.broker.inspect.peek(b"t", group=b"b")


async def test_what_is_retained_is_there_for_groups_that_begin_or_go_back(world):
    await world.broker.admin.create(b"t", {"retention_seconds": 1000}).wait()
    await world.publish_each(b"t", b"1", b"2", b"3")
    assert await payloads(world, b"default") == [b"1", b"2", b"3"]
    assert await payloads(world, b"a") == [b"1", b"2", b"3"]
    assert await world.broker.groups.seek(b"t", b"default", FromMessage(0, 1)) == (0, 2)
    await world.restart()
    assert await payloads(world, b"default") == [b"2", b"3"]


async def test_a_group_that_begins_in_an_ordered_topic_keeps_the_order_of_keys(world):
    await world.broker.admin.create(b"t", {"ordered": True}).wait()
    for payload in (b"1", b"2"):
        world.broker.publish_with(b"t", payload, PublishOptions(key=b"k"))
    await world.commit()
    taken = await receive(world, b"a")
    assert [payload for _, payload in taken] == [b"1"]
    world.broker.leases.nack(b"t", [taken[0][0]])
    assert [payload for _, payload in await receive(world, b"a")] == [b"1"]
