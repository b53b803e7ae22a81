"""What a topic keeps where several groups read it: what the last of them needs, and who is too late is told."""

from miniqueue.broker import batching
from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.placing import place
from miniqueue.core.cursor import GroupCursor
from tests.broker.support import run
from tests.broker.test_retaining import chunks, configure, consume, fill, readable, tick


async def add_group(world, seq):
    """Make a group that begins at a message; return its cursor."""
    topic = world.broker._topics[b"t"]
    log = PartitionLog(world.store, topic, topic.id, topic.partitions[0])
    found, at_seq = await place(log, seq, None)
    assert at_seq == seq
    tail_seq = topic.partitions[0].tail_seq
    cursor = GroupCursor(found.state, tail_seq, found.bitmaps, found.gaps, partition=0, group=1)
    group = topic.group(b"late")
    topic.set_cursors(group, 1, {0: cursor})
    world.broker._journal.change({**batching.new_group(1, group, 0), **batching.new_cursor(1, cursor)})
    await world.commit()
    return cursor


def state_of_group(world):
    return world.broker._topics[b"t"].partitions[0].cursors[1].state


def test_what_a_group_has_not_read_stays():
    async def body(world):
        await configure(world, retention_seconds=2)
        messages = await fill(world, 5)
        await add_group(world, 1)
        assert await consume(world, 5) == messages
        world.clock.advance(100)
        await tick(world)
        assert await readable(world, 0) == (messages[1:], 1)
        await world.restart()
        await tick(world)
        assert await readable(world, 0) == (messages[1:], 1)
        assert state_of_group(world).missed_count == 0

    run(body)


def test_a_group_may_begin_among_what_is_kept():
    async def body(world):
        await configure(world, retention="forever")
        messages = await fill(world, 5)
        await consume(world, 5)
        cursor = await add_group(world, 2)
        assert (cursor.depth, chunks(world)) == (3, [0, 1, 2, 3, 4])
        await world.restart()
        topic = world.broker._topics[b"t"]
        assert topic.partitions[0].cursors[1].depth == 3
        await configure(world)
        await tick(world)
        assert await readable(world, 0) == (messages[2:], 2)

    run(body)


def test_only_who_is_too_late_misses_something():
    async def body(world):
        await configure(world, retention_seconds=2.5, retention_drops_unread=True)
        messages = await fill(world, 6)
        await add_group(world, 1)
        assert await consume(world, 6) == messages
        await tick(world)
        assert await readable(world, 0) == (messages[4:], 4)
        late = state_of_group(world)
        assert (late.missed_count, late.head_seq) == (3, 4)
        first = world.broker._topics[b"t"].default.cursors[0].state
        assert (first.missed_count, first.acked_count) == (0, 6)
        assert (await world.broker.looker.stats(b"t"))["missed"] == 3
        await world.restart()
        assert state_of_group(world).missed_count == 3

    run(body)
