"""Groups that are made, moved and deleted while others settle, move, go and come."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from miniqueue.broker.groups.cleanup import PINNED
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.start import Edge, FromMessage
from miniqueue.errors import LimitReachedError
from miniqueue.errors.requests import UnknownPartitionError
from miniqueue.storage.format import groups
from tests.broker.groups.test_groups import chunk_count, payloads, receive
from tests.broker.support import world_with
from tests.fakes import broker_on, settle_down
from tests.tools.test_audit_of_retention import problems_of


async def number_after_restart(world) -> int:
    """Return the number that the next message gets in the log of a store that is sound."""
    await settle_down()
    assert problems_of(world.store.pairs()) == []
    await world.restart()
    await world.publish(b"t", b"next")
    return world.broker._engine.topics.by_name[b"t"].partitions[0].next_seq - 1


async def test_numbers_go_on_after_the_only_group_has_gone_to_the_end(world):
    await world.publish_each(b"t", b"1", b"2", b"3")
    await world.broker.groups.seek(b"t", b"default", Edge.LATEST)
    assert await number_after_restart(world) == 3
    assert await payloads(world, b"default") == [b"next"]


async def test_numbers_go_on_after_the_only_group_that_needed_messages_was_deleted(world):
    await world.broker.groups.create(b"t", b"a")
    await world.publish_each(b"t", b"1", b"2", b"3")
    await world.broker.groups.create(b"t", b"b", Edge.LATEST)
    await world.broker.groups.delete(b"t", b"a")
    assert await number_after_restart(world) == 3
    assert await payloads(world, b"b") == [b"next"]


async def test_numbers_go_on_where_more_is_published_in_the_commit_that_moves_a_group(world):
    await world.publish_each(b"t", b"1", b"2")
    world.store.may_write.clear()
    first = world.broker.publish(b"t", [b"3"])
    await settle_down()
    moving = asyncio.create_task(world.broker.groups.seek(b"t", b"default", Edge.LATEST))
    second = world.broker.publish(b"t", [b"4"])
    await settle_down()
    world.store.may_write.set()
    await moving
    await asyncio.gather(first.commit.wait(), second.commit.wait())
    assert await number_after_restart(world) == 4


async def test_numbers_go_on_after_another_group_was_deleted_while_one_is_made_behind_it(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish_each(b"t", b"1", b"2", b"3")
    await payloads(world, b"b")
    async with slow_looks(world):
        making = asyncio.create_task(world.broker.groups.create(b"t", b"c"))
        await settle_down()
        await world.broker.groups.delete(b"t", b"a")
    await making
    assert await payloads(world, b"c") == []
    await world.publish(b"t", b"4")
    assert await payloads(world, b"c") == [b"4"]
    assert await number_after_restart(world) == 4


@asynccontextmanager
async def slow_looks(world):
    """Make lookups of positions wait until the block ends."""
    last_of, may_go_on = world.store.last_of, asyncio.Event()

    async def slow(ranges):
        found = await last_of(ranges)
        await may_go_on.wait()
        return found

    world.store.last_of = slow
    yield
    may_go_on.set()


async def test_who_leaves_a_group_while_it_is_made_takes_nothing_along(world):
    await world.publish(b"t", b"1")
    async with slow_looks(world):
        making = asyncio.create_task(world.broker.groups.create(b"t", b"g"))
        await settle_down()
        world.broker.consumer(b"t", print, print, group=b"g").close()
        await settle_down()
    await making
    assert [figures.name async for figures in world.broker.groups.figures(b"t")] == [b"default", b"g"]
    assert await payloads(world, b"g") == [b"1"]


async def test_of_two_that_move_a_group_the_last_one_does(world):
    await world.publish_each(b"t", b"1", b"2", b"3")
    async with slow_looks(world):
        moves = [world.broker.groups.seek(b"t", b"default", FromMessage(0, seq)) for seq in (1, 2)]
        moving = asyncio.gather(*moves)
        await settle_down()
    await moving
    assert await payloads(world, b"default") == [b"3"]
    await settle_down()
    assert chunk_count(world) == 0


async def test_what_was_settled_right_before_its_group_was_deleted_leaves_no_chunk(world):
    for group in (b"a", b"b"):
        await world.broker.groups.create(b"t", group)
    await world.publish_each(b"t", b"1", b"2", b"3")
    await payloads(world, b"b")
    taken = await receive(world, b"a")
    world.store.may_write.clear()
    world.broker.leases.ack(b"t", [taken[0][0]])
    deleting = asyncio.create_task(world.broker.groups.delete(b"t", b"a"))
    await settle_down()
    world.broker.leases.ack(b"t", [taken[2][0]])
    world.store.may_write.set()
    await deleting
    await settle_down()
    assert problems_of(world.store.pairs()) == []
    assert chunk_count(world) == 0


async def test_a_group_that_could_not_be_made_is_forgotten(world):
    await world.publish(b"t", b"1")
    with pytest.raises(UnknownPartitionError):
        await world.broker.groups.create(b"t", b"g", FromMessage(7, 1))
    assert list(world.broker._engine.topics.by_name[b"t"].groups) == [b"default"]


async def test_a_group_is_made_after_a_crash_in_which_another_was_being_made(world):
    await world.publish(b"t", b"1")
    async with slow_looks(world):
        making = asyncio.create_task(world.broker.groups.create(b"t", b"g"))
        await settle_down()
        await world.publish(b"t", b"2")
        store = await world.store.as_of(len(world.store.batches))
    await making
    await world.broker.stop()
    world.store = store
    store.may_write.clear()
    starting = asyncio.create_task(world.start())
    await settle_down()
    making = asyncio.create_task(world.broker.groups.create(b"t", b"h"))
    await settle_down()
    store.may_write.set()
    await asyncio.gather(starting, making)
    await settle_down()
    assert not world.broker.failed.done()
    assert await payloads(world, b"h") == [b"1", b"2"]
    assert problems_of(world.store.pairs()) == []


@world_with(limits=BrokerLimits(max_groups=3))
async def test_of_many_that_make_groups_at_once_no_more_succeed_than_there_may_be(world):
    await world.publish(b"t", b"1")
    made = [world.broker.groups.create(b"t", b"%d" % number) for number in range(5)]
    refusals = [one for one in await asyncio.gather(*made, return_exceptions=True) if one is not None]
    assert [type(refusal) for refusal in refusals] == [LimitReachedError] * 3
    shown = [group async for group in world.broker.groups.figures(b"t")]
    assert len(shown) == len(world.broker._engine.topics.by_name[b"t"].groups) == 3


async def test_a_look_that_ends_after_a_fault_leaves_the_note_of_what_it_kept_until_that_is_deleted(world):
    await world.broker.groups.create(b"t", b"a")
    await world.publish_each(b"t", b"1", b"2", b"3")
    async with slow_looks(world):
        looking = asyncio.create_task(world.broker.groups.seek(b"t", b"a", Edge.EARLIEST, is_dry=True))
        await settle_down()
        assert await payloads(world, b"a") == [b"1", b"2", b"3"]  # finished, and kept for the look
        assert chunk_count(world) == 3
        world.store.fail_writes = {world.store.write_count + 1}
        world.broker.publish(b"t", [b"lost"])
        await settle_down()
        world.store.may_write.clear()  # what a start deletes is not deleted yet
    await asyncio.gather(looking, return_exceptions=True)
    world.store.may_write.set()
    await settle_down()
    assert chunk_count(world) == 0
    assert await number_after_restart(world) in (3, 4)


async def start_as_of_now(world) -> None:
    """Kill the broker, and start another on what the store holds now; what is to be deleted waits for scans."""
    store = await world.store.as_of(len(world.store.batches))
    await world.broker.stop()
    world.store = store
    world.broker = broker_on(store, world.clock)
    await world.broker.start()
    store.may_scan.clear()
    await settle_down()


async def start_with_an_entry(world) -> None:
    """Start on a store with the entry that chunks may be kept for a look, and three such chunks."""
    await world.broker.groups.create(b"t", b"a")
    await world.publish_each(b"t", b"1", b"2", b"3")
    await payloads(world, b"default")
    async with slow_looks(world):
        looking = asyncio.create_task(world.broker.groups.seek(b"t", b"a", Edge.EARLIEST, is_dry=True))
        await settle_down()
        assert await payloads(world, b"a") == [b"1", b"2", b"3"]
        await start_as_of_now(world)
    await asyncio.wait([looking])
    assert left(world) == (3, True)


def left(world) -> tuple[int, bool]:
    """Return how many chunks there are, and whether there is an entry that some may be kept for a look."""
    return chunk_count(world), groups.purge(1, PINNED) in world.store.pairs()


@asynccontextmanager
async def slow_look(world):
    """Look where a group would begin, until the end of the block."""
    async with slow_looks(world):
        looking = asyncio.create_task(world.broker.groups.seek(b"t", b"a", Edge.EARLIEST, is_dry=True))
        await settle_down()
        yield
    await asyncio.wait([looking])
    await settle_down()


async def check_that_a_start_deletes_all(world) -> None:
    """Kill the broker; the next one must delete all chunks, and the entry behind them."""
    await start_as_of_now(world)
    world.store.may_scan.set()
    await settle_down()
    assert left(world) == (0, False)
    assert problems_of(world.store.pairs()) == []


@pytest.mark.parametrize("is_killed", [True, False])
async def test_the_entry_of_a_look_is_not_removed_with_what_an_earlier_look_has_left(is_killed, world):
    await start_with_an_entry(world)
    await world.publish_each(b"t", b"4", b"5")
    async with slow_look(world):
        world.store.may_scan.set()
        await settle_down()
        assert left(world) == (2, True)  # the background deletion has ended
        for group in (b"default", b"a"):
            assert await payloads(world, group) == [b"4", b"5"]
        assert left(world) == (2, True)  # finished, and kept for the look
        if is_killed:
            await check_that_a_start_deletes_all(world)
    assert left(world) == (0, False)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_the_end_of_a_look_leaves_the_entry_of_what_is_still_to_be_deleted(is_killed, world):
    await start_with_an_entry(world)
    world.store.fail_scans = {world.store.scan_count}  # a later tick tries again
    world.store.may_scan.set()
    await settle_down()
    async with slow_look(world):
        pass
    assert left(world) == (3, True)
    if is_killed:
        await check_that_a_start_deletes_all(world)
    else:
        world.broker.tick()
        await settle_down()
        assert left(world) == (0, False)


async def test_a_look_that_ends_while_what_an_earlier_one_left_is_deleted_leaves_no_entry(world):
    await start_with_an_entry(world)
    await world.publish(b"t", b"4")
    async with slow_look(world):
        world.store.may_scan.set()
        world.store.may_write.clear()
        await settle_down()  # the background deletion has found pins, and waits for its commit
    world.store.may_write.set()
    await settle_down()
    assert left(world) == (1, False)


async def test_what_a_look_has_left_is_deleted_with_its_entry_after_a_reopening(world):
    await start_with_an_entry(world)
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.publish(b"t", [b"lost"])
    world.store.may_scan.set()
    await settle_down()
    await world.publish(b"t", b"4")
    async with slow_look(world):
        pass
    assert left(world) == (1, False)
