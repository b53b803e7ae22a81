"""A group that is put elsewhere: what it is handed then, what is counted, and what its new cursor is like."""

import pytest

from miniqueue.broker.partition_log import PartitionLog
from miniqueue.broker.placing import place
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.seeking import reach_of
from miniqueue.errors import CorruptionError
from tests.broker.support import run
from tests.broker.test_retaining import configure, consume, fill, tick


def log_of(world):
    topic = world.broker._topics[b"t"]
    return PartitionLog(world.store, topic, topic.id, topic.partitions[0])


async def put(world, seq, *, is_new=False):
    """Put the default group at `seq`, as if it had never had anything."""
    log = log_of(world)
    (old,) = log.partition.cursors.values()
    found, at_seq = await place(log, seq, None if is_new else old)
    new = GroupCursor(found.state, old.tail_seq, found.bitmaps, found.gaps)
    old.revoke_all()
    log.partition.cursors[0] = new
    log.topic.default.replace([new])
    return new, at_seq


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("seq", range(12))
@pytest.mark.parametrize("consumed", [0, 1, 4, 10])
def test_all_from_there_on_is_delivered(seq, consumed, is_new):
    async def body(world):
        await configure(world, retention="forever")
        messages = [b"x" * n for n in range(10)]
        for start, stop in [(0, 3), (3, 4), (4, 8), (8, 10)]:
            await world.publish(b"t", *messages[start:stop])
        if consumed:
            await consume(world, consumed)
        cursor, at_seq = await put(world, seq, is_new=is_new)
        assert at_seq == min(seq, 10)
        assert cursor.depth == 10 - at_seq
        assert cursor.tail_bytes - cursor.gone_bytes == sum(map(len, messages[at_seq:]))
        assert cursor.state.acked_count == (0 if is_new else min(consumed, at_seq))
        assert await world.drain(b"t") == messages[at_seq:]
        assert (cursor.depth, cursor.gone_bytes) == (0, sum(map(len, messages)))

    run(body)


async def with_holes(world):
    """Leave messages 0, 3 and 6 of 9; the others are acknowledged, each in a commit of its own."""
    for n in range(9):
        await world.publish(b"t", b"x" * n)
    holders = [await world.holding(b"t") for _ in range(9)]
    for n in (1, 2, 4, 5, 7, 8):
        holders[n].consumer.ack()
    await world.commit()
    return holders


@pytest.mark.parametrize(
    ("seq", "at_seq", "left"),
    [(0, 0, [0, 3, 6]), (1, 3, [3, 6]), (3, 3, [3, 6]), (5, 6, [6]), (6, 6, [6]), (7, 9, []), (9, 9, [])],
)
def test_what_is_gone_is_passed_over(seq, at_seq, left):
    async def body(world):
        await with_holes(world)
        cursor, placed_at = await put(world, seq)
        assert placed_at == at_seq
        assert cursor.depth == len(left)
        assert cursor.tail_bytes - cursor.gone_bytes == sum(left)
        assert await world.drain(b"t") == [b"x" * n for n in left]
        assert (cursor.depth, cursor.gone_bytes) == (0, sum(range(9)))

    run(body)


def test_a_topic_that_began_to_keep_has_holes_only_in_front():
    async def body(world):
        holders = await with_holes(world)
        await configure(world, retention="forever")
        await world.publish_each(b"t", b"a", b"b", b"c")
        assert await world.drain(b"t") == [b"a", b"b", b"c"]
        for n in (3, 6):
            holders[n].consumer.ack()
        await world.commit()
        assert reach_of(log_of(world).partition) == (0, 12, ((1, 9),))
        _cursor, at_seq = await put(world, 2)
        assert at_seq == 9
        assert await world.drain(b"t") == [b"a", b"b", b"c"]

    run(body)


def test_nobody_is_put_among_what_is_given_back():
    async def body(world):
        await configure(world, retention="forever")
        await fill(world, 4)
        await consume(world, 2)
        await configure(world)
        assert reach_of(log_of(world).partition) == (4, 4, ())
        await world.publish(b"t", b"x")
        _cursor, at_seq = await put(world, 0)
        assert at_seq == 4
        assert await world.drain(b"t") == [b"x"]

    run(body)


def test_what_only_a_group_needed_that_is_elsewhere_is_given_back():
    async def body(world):
        await fill(world, 4)
        holder = await world.holding(b"t")
        await consume(world, 1)
        await put(world, 4)
        topic = world.broker._topics[b"t"]
        world.broker._retainer.leave_behind(topic, {0: 0})
        await world.commit()
        await tick(world)
        await world.commit()
        assert topic.partitions[0].retained is None
        assert [key for key in world.store.pairs() if key[0] == 0x20] == []
        holder.consumer.close()

    run(body)


def test_a_message_that_should_be_there_and_is_not_is_damage():
    async def body(world):
        await world.publish_each(b"t", b"a", b"b")
        await world.store.write({log_of(world).key(1): None})
        with pytest.raises(CorruptionError, match="message 1 is missing"):
            await place(log_of(world), 1, None)

    run(body)
