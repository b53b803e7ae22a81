"""What topics keep of messages that are acknowledged: for how long, how much, and that the rest is given back."""

import pytest

from miniqueue.broker.cleanup import retention
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.read import ReadOptions
from miniqueue.storage.format import keys, log_ends
from tests.fakes import settle_down


async def configure(world, **settings):
    await world.broker.admin.replace(b"t", settings)[0].wait()


async def fill(world, count=10):
    """Publish so many messages, one a second, each in a commit; acknowledge none."""
    messages = [b"%d" % n for n in range(count)]
    for message in messages:
        await world.publish(b"t", message)
        world.clock.advance(1)
    return messages


async def consume(world, count):
    """Take and acknowledge the next messages; return them."""
    holder = await world.holding(b"t")
    for _ in range(count - 1):
        holder.consumer.ack()
        holder.consumer.request()
        await settle_down()
    holder.consumer.ack()
    await world.commit()
    holder.consumer.close()
    return holder.payloads


async def tick(world):
    world.broker.tick()
    for _ in range(5):
        await settle_down()


async def readable(world, offset=None):
    """Return what can be read, and how many were missed."""
    page = await world.broker.inspect.log.read(b"t", 0, ReadOptions(offset, max_count=10_000))
    return [payload for run_ in page.runs for payload in run_.payloads], page.missed_count


def chunks(world):
    return [keys.chunk_first_seq(key) for key in sorted(world.store.pairs()) if key[0] == keys.Space.CHUNK]


def start_in(store):
    value = store.pairs().get(log_ends.start(1, 0))
    return None if value is None else log_ends.decode_start(value)[0]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_forever_keeps_what_is_acknowledged(is_restarted, world):
    await configure(world, retention="forever")
    messages = await fill(world)
    assert await world.drain(b"t") == messages
    await world.commit()
    if is_restarted:
        await world.restart()
    world.clock.advance(10**7)
    await tick(world)
    assert await readable(world) == (messages, 0)
    assert world.broker.stats()[b"t"].ready == 0
    assert await world.drain(b"t") == []


async def test_by_default_nothing_is_kept_and_nothing_is_written_about_it(world):
    await fill(world)
    await world.drain(b"t")
    await world.commit()
    assert (chunks(world), start_in(world.store)) == ([], None)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_time_keeps_what_is_not_so_old(is_restarted, world):
    await configure(world, retention_seconds=4.5)
    messages = await fill(world)  # the ages are 10, 9 … 1 s
    assert await consume(world, 8) == messages[:8]
    if is_restarted:
        await world.restart()
    await tick(world)
    assert await readable(world) == (messages[6:], 0)
    assert await readable(world, 2) == (messages[6:], 4)
    assert start_in(world.store) == 6
    world.clock.advance(100)
    await tick(world)
    assert await readable(world) == (messages[8:], 0), "what is not acknowledged stays"
    assert await world.drain(b"t") == messages[8:]
    await world.commit()
    await tick(world)
    assert (await readable(world), chunks(world), start_in(world.store)) == (([], 0), [], 10)


async def test_bytes_keep_at_least_so_many(world):
    await configure(world, retention_bytes=25)
    messages = [bytes([65 + n]) * 10 for n in range(6)]
    await world.publish_each(b"t", *messages)
    await consume(world, 6)
    await tick(world)
    assert await readable(world) == (messages[3:], 0)


async def test_a_number_keeps_the_last_so_many(world):
    await configure(world, retention_messages=3)
    messages = await fill(world)
    await world.drain(b"t")
    await world.commit()
    await tick(world)
    assert await readable(world) == (messages[-3:], 0)
    await world.publish(b"t", b"a", b"b")
    await world.drain(b"t")
    await world.commit()
    await tick(world)
    assert await readable(world) == ([messages[-1], b"a", b"b"], 0)
    await world.restart()
    await tick(world)
    assert (await readable(world))[0] == [messages[-1], b"a", b"b"]


async def test_a_number_deletes_whole_chunks_and_no_unread_message_unless_it_is_told_to(world):
    await configure(world, retention_messages=3)
    for message in (b"a", b"b"):
        await world.publish(b"t", *[message] * 4)
    await tick(world)
    assert await readable(world) == ([b"a"] * 4 + [b"b"] * 4, 0)
    await configure(world, retention_messages=3, retention_drops_unread=True)
    await tick(world)
    assert await readable(world, 0) == ([b"b"] * 4, 4)
    assert world.broker.stats()[b"t"].dropped == 4


async def test_of_time_and_bytes_the_first_that_is_reached_counts(world):
    await configure(world, retention_bytes=5, retention_seconds=3.5)
    messages = await fill(world)
    await world.drain(b"t")
    await world.commit()
    await tick(world)
    assert await readable(world) == (messages[7:], 0)
    await configure(world, retention_bytes=2, retention_seconds=100)
    await tick(world)
    assert await readable(world) == (messages[8:], 0)


async def test_a_topic_that_begins_to_keep_keeps_what_comes_then(world):
    messages = await fill(world)
    await consume(world, 3)
    await configure(world, retention="forever")
    assert await world.drain(b"t") == messages[3:]
    await world.commit()
    assert await readable(world, 0) == (messages[3:], 3)
    assert start_in(world.store) == 3
    await world.restart()
    assert await readable(world, 0) == (messages[3:], 3)


async def test_what_was_finished_right_before_is_deleted_all_the_same(world):
    messages = await fill(world, 3)
    holder = await world.holding(b"t")
    holder.consumer.ack()  # not committed yet
    commit, _ = world.broker.admin.replace(b"t", {"retention": "forever"})
    await commit.wait()
    assert chunks(world) == [1, 2]
    assert await readable(world, 0) == (messages[1:], 1)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_topic_that_ends_to_keep_gives_all_back(is_restarted, world):
    await configure(world, retention="forever")
    messages = await fill(world)
    await consume(world, 6)
    await configure(world)
    assert start_in(world.store) == 0
    if is_restarted:
        await world.restart()
    await tick(world)
    assert (chunks(world), start_in(world.store)) == ([6, 7, 8, 9], 6)
    await world.publish(b"t", b"x")
    holder = await world.holding(b"t")
    assert await world.drain(b"t") == [*messages[7:], b"x"]
    await world.commit()
    assert chunks(world) == [6, 7, 8, 9], "what came after it is not kept"
    holder.consumer.ack()
    await world.commit()
    await tick(world)
    await world.commit()
    assert (chunks(world), start_in(world.store)) == ([], None)
    assert world.broker._engine.topics.by_name[b"t"].partitions[0].retained is None


async def test_a_topic_may_keep_again_before_all_is_given_back(world):
    await configure(world, retention="forever")
    messages = await fill(world, 4)
    holder = await world.holding(b"t")
    await consume(world, 2)
    await configure(world)
    await configure(world, retention="forever")
    holder.consumer.ack()
    await world.drain(b"t")
    await world.commit()
    await tick(world)
    assert await readable(world) == (messages, 0)


async def test_chunks_behind_one_that_is_open_wait_for_it(world):
    await configure(world, retention_seconds=1)
    messages = await fill(world, 4)
    holder = await world.holding(b"t")
    await consume(world, 3)
    world.clock.advance(100)
    await tick(world)
    assert await readable(world) == (messages, 0)
    holder.consumer.ack()
    await world.commit()
    await tick(world)
    assert chunks(world) == []


async def test_a_message_that_came_back_does_not_hold_the_log(world):
    await configure(world, retention_seconds=1)
    await fill(world, 3)
    holder = await world.holding(b"t")
    holder.consumer.dack(1000)
    await world.drain(b"t")
    await world.commit()
    world.clock.advance(10)
    await tick(world)
    assert chunks(world) == []
    world.clock.advance(1000)
    await tick(world)
    assert await world.drain(b"t") == [b"0"]


async def test_a_page_is_deleted_at_a_time(monkeypatch, world):
    monkeypatch.setattr(retention, "PAGE_CHUNKS", 3)
    await configure(world, retention_seconds=1)
    await fill(world, 10)
    await world.drain(b"t")
    await world.commit()
    batches = len(world.store.batches)
    await tick(world)
    assert chunks(world) == []
    deleted = [sum(key[0] == keys.Space.CHUNK for key in batch) for batch in world.store.batches[batches:]]
    assert deleted == [3, 3, 3, 1]


async def test_a_tick_with_nothing_to_do_reads_nothing(world):
    await configure(world, retention_seconds=1000)
    await fill(world, 3)
    await world.drain(b"t")
    await world.commit()
    await tick(world)
    scans = world.store.scan_count
    await tick(world)
    assert world.store.scan_count == scans


async def test_a_broken_off_deletion_goes_on_after_a_restart(monkeypatch, world):
    monkeypatch.setattr(retention, "PAGE_CHUNKS", 3)
    await configure(world, retention_seconds=1)
    messages = await fill(world, 10)
    await consume(world, 9)
    await tick(world)
    for count in range(len(world.store.batches)):
        world_then = await world.store.as_of(count + 1)
        first = min([keys.chunk_first_seq(key) for key in world_then.pairs() if key[0] == keys.Space.CHUNK] or [0])
        assert start_in(world_then) in (None, first)
    assert await readable(world) == (messages[9:], 0)


async def test_a_fault_of_the_store_leaves_memory_true_to_it(world):
    await configure(world, retention_seconds=1)
    messages = await fill(world, 4)
    await consume(world, 3)
    world.store.fail_writes = {world.store.write_count + 1}
    await tick(world)
    await settle_down()
    assert world.broker._engine.topics.by_name[b"t"].partitions[0].retained.start_seq in (0, 3)
    await tick(world)
    assert await readable(world) == (messages[3:], 0)
    assert chunks(world) == [3]


async def test_a_scan_that_fails_is_tried_again(world):
    await configure(world, retention_seconds=1)
    await fill(world, 2)
    await world.drain(b"t")
    await world.commit()
    world.store.fail_scans = {world.store.scan_count + 1}
    await tick(world)
    assert chunks(world) == [0, 1]
    await tick(world)
    assert chunks(world) == []


async def test_a_topic_that_is_deleted_is_looked_at_no_more(world):
    await configure(world, retention="forever")
    await fill(world, 2)
    await world.broker.delete_topic(b"t")
    await tick(world)
    assert world.broker._retention._retaining == {}
    await world.publish(b"t", b"x")
    await world.drain(b"t")
    await world.commit()
    assert chunks(world) == []


async def test_unread_messages_go_with_the_limits_if_the_topic_says_so_and_are_counted(world):
    await configure(world, retention_seconds=4.5, retention_drops_unread=True)
    messages = await fill(world)
    assert await consume(world, 2) == messages[:2]
    await tick(world)
    assert await readable(world, 0) == (messages[6:], 6)
    state = world.broker._engine.topics.by_name[b"t"].default.cursors[0].state
    assert (state.missed_count, state.dropped_count, state.acked_count) == (4, 4, 2)
    assert start_in(world.store) == 6
    await world.restart()
    assert world.broker._engine.topics.by_name[b"t"].default.cursors[0].state.missed_count == 4
    assert await world.drain(b"t") == messages[6:]


async def test_what_is_leased_is_not_dropped(world):
    await configure(world, retention_seconds=1, retention_drops_unread=True)
    messages = await fill(world, 5)
    holder = await world.holding(b"t")
    await tick(world)
    assert await readable(world) == (messages, 0)
    assert world.broker.stats()[b"t"].ready == 0
    holder.consumer.ack()
    await world.commit()
    await tick(world)
    assert (chunks(world), world.broker.stats()[b"t"].dropped) == ([], 4)


async def test_lanes_keep_what_their_topic_keeps(world):
    await configure(world, retention="forever")
    options = PublishOptions(priority=Priority.HIGH)
    await world.broker.publish_with(b"t", b"a", options).commit.wait()
    await world.drain(b"t")
    await world.restart()
    (lane,) = [bounds for bounds in world.broker.inspect.log.bounds(b"t") if bounds.end_seq]
    page = await world.broker.inspect.log.read(b"t", lane.partition, ReadOptions(0))
    assert [run_.payloads for run_ in page.runs] == [[b"a"]]
