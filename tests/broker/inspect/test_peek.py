"""Messages shown by state and by id: what is shown, in which order, from where on, and that nothing changes by it."""

import pytest

from miniqueue.broker.inspect import peek as peeking
from miniqueue.broker.inspect.peeked import State, parse_count, parse_state
from miniqueue.broker.model.views import stats_of
from miniqueue.core.message.lanes import Priority
from miniqueue.core.message.message import Counts
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import StorageError, UnavailableError
from miniqueue.errors.requests import InvalidOptionError, UnknownMessageError, UnknownTopicError
from tests.broker.support import started_world
from tests.fakes import START_MS, settle_down


async def payloads(world, state=State.READY, count=1000, after=None):
    return [seen.stored.payload for seen in await world.broker.inspect.peek(b"t", state, count, after)]


async def leaf(world, state=State.READY, count=1):
    """Return the payloads of all pages."""
    found, after = [], None
    while page := await world.broker.inspect.peek(b"t", state, count, after):
        found += [seen.stored.payload for seen in page]
        after = (0, page[-1].stored.seq)
    return found


async def scatter(world):
    """Put messages everywhere: in the front and back ranges, due, delayed, leased, acknowledged, and in the log."""
    await world.publish(b"t", *[b"%d" % n for n in range(12)])
    holders = {n: await world.holding(b"t") for n in range(8)}
    holders[2].consumer.ack()
    holders[1].consumer.back()
    await world.publish_each(b"t", b"12", b"13")
    holders[3].consumer.back()
    await world.publish(b"t", b"14", b"15")
    holders[4].consumer.dack(5)
    holders[5].consumer.dack(60)
    holders[0].consumer.dack(61)
    holders[6].consumer.nack()
    world.clock.advance(10)
    world.broker.tick()
    return holders


ORDER = [b"6", b"4", b"8", b"9", b"10", b"11", b"1", b"12", b"13", b"3", b"14", b"15"]


@pytest.mark.parametrize("page", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_is_ready_comes_in_the_order_of_delivery(page, is_restarted, world):
    holders = await scatter(world)
    order = ORDER
    if is_restarted:
        await world.restart()
        order = [b"6", b"4", b"7", *ORDER[2:]]
    assert await leaf(world, count=page) == order
    assert await leaf(world, State.DELAYED, page) == [b"5", b"0"]
    assert await leaf(world, State.LEASED, page) == ([] if is_restarted else [b"7"])
    world.broker.tick()
    if not is_restarted:
        holders[7].consumer.ack()
    assert await world.drain(b"t") == order


async def test_what_a_message_says_of_itself(world):
    await scatter(world)
    (front,) = await world.broker.inspect.peek(b"t", State.READY, 1)
    assert (front.partition, front.state, front.due_at_ms) == (0, State.READY, None)
    assert (front.stored.seq, front.stored.published_at_ms, front.stored.counts) == (6, START_MS, Counts(nacks=1))
    (delayed,) = await world.broker.inspect.peek(b"t", State.DELAYED, 1)
    assert (delayed.state, delayed.due_at_ms, delayed.stored.counts) == (
        State.DELAYED,
        START_MS + 60_000,
        Counts(dacks=1),
    )
    (leased,) = await world.broker.inspect.peek(b"t", State.LEASED, 1)
    assert (leased.state, leased.stored.payload) == (State.LEASED, b"7")


async def test_each_message_is_found_wherever_it_is(world):
    await scatter(world)
    states = {}
    for n in range(16):
        try:
            seen = await world.broker.inspect.find(b"t", (0, n))
        except UnknownMessageError:
            continue
        assert seen.stored.payload == b"%d" % n
        states.setdefault(seen.state, []).append(n)
    assert states == {
        State.DELAYED: [0, 5],
        State.LEASED: [7],
        State.READY: [1, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15],
    }
    for unknown in ((0, 16), (0, 1 << 60), (1, 3)):
        with pytest.raises(UnknownMessageError):
            await world.broker.inspect.find(b"t", unknown)


async def test_leased_messages_come_by_id_and_across_leases(world):
    await world.publish(b"t", *[b"%d" % n for n in range(10)])
    leases = []
    consumer = world.broker.consumer(b"t", leases.extend, None, prefetch=7)
    consumer.request()
    consumer.nack([3, 4])
    consumer.refill()
    await settle_down()
    expected = [b"%d" % n for n in range(7)]
    for page in (1, 2, 10):
        assert await leaf(world, State.LEASED, page) == expected
    assert await payloads(world) == [b"7", b"8", b"9"]


async def test_looking_changes_nothing(world):
    await scatter(world)
    await world.restart()
    topic = world.broker._engine.topics.by_name[b"t"]
    before = stats_of(topic), world.store.pairs(), topic.size_bytes
    writes = world.store.write_count
    for state in State:
        await leaf(world, state, 2)
    for n in range(16):
        if n != 2:
            await world.broker.inspect.find(b"t", (0, n))
    assert (stats_of(topic), world.store.pairs(), topic.size_bytes) == before
    assert world.store.write_count == writes
    assert not topic.default.is_loading


async def test_the_first_page_of_a_long_backlog_reads_next_to_nothing(world):
    for _ in range(100):
        await world.publish(b"t", *[b"x" * 100] * 100)
    before = world.store.scanned_bytes
    assert len(await payloads(world, count=10)) == 10
    assert len(await payloads(world, count=10, after=(0, 5000))) == 10
    assert world.store.scanned_bytes - before < 600_000


async def test_messages_that_came_back_are_paged_without_searching_for_the_last_one(world):
    await world.publish(b"t", *[b"%04d" % n for n in range(2000)])
    received = []
    consumer = world.broker.consumer(b"t", received.extend, None, prefetch=2000)
    consumer.request()
    await consumer.dack(60, range(1, 2001))
    await world.commit()
    before = world.store.scan_count
    assert await leaf(world, State.DELAYED, 100) == [b"%04d" % n for n in range(2000)]
    assert world.store.scan_count - before <= 3 * 21
    world.broker.inspect.messages._positions.clear()
    assert (await payloads(world, State.DELAYED, 2, (0, 1500))) == [b"1501", b"1502"]


async def test_paging_goes_on_behind_a_message_that_is_gone(world):
    await world.publish(b"t", *[b"%d" % n for n in range(6)])
    held = [await world.holding(b"t") for _ in range(4)]
    for holder in held:
        holder.consumer.nack()
    assert await payloads(world, count=2) == [b"3", b"2"]
    taker = await world.holding(b"t")
    taker.consumer.ack()
    taker.consumer.request()
    taker.consumer.ack()
    assert await payloads(world, after=(0, 2)) == [b"1", b"0", b"4", b"5"]
    world.broker.inspect.messages._positions.clear()
    assert await payloads(world, after=(0, 2)) == [b"4", b"5"]  # taken for one of the log
    with pytest.raises(UnknownMessageError):
        await payloads(world, State.DELAYED, after=(0, 2))


async def test_no_more_positions_are_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(peeking, "MAX_POSITIONS", 3)

    async with started_world() as world:
        await world.publish(b"t", *[b"%d" % n for n in range(10)])
        await leaf(world)
        assert len(world.broker.inspect.messages._positions) == 3


async def test_large_messages_end_a_page_early(monkeypatch):
    monkeypatch.setattr(peeking, "MAX_BYTES", 25)

    async with started_world() as world:
        await world.publish(b"t", *[b"%010d" % n for n in range(10)])
        assert len(await payloads(world)) == 3
        assert len(await leaf(world, count=10)) == 10
        for _ in range(5):
            await world.holding(b"t")
        assert len(await payloads(world, State.LEASED)) == 3


async def test_while_the_store_is_reopened_there_is_nothing_to_see(world):
    await world.publish(b"t", b"a", b"b")
    world.store.fail_writes = {world.store.write_count + 1}
    world.store.may_write.clear()
    (await world.holding(b"t")).consumer.ack()
    world.store.may_write.set()
    with pytest.raises(UnavailableError):
        await payloads(world)
    await settle_down()
    assert await payloads(world) == [b"a", b"b"]  # the acknowledgement was lost with the store


async def test_a_store_that_cannot_be_read_is_an_error_and_no_fault_of_the_topic(world):
    await world.publish(b"t", b"a")
    world.store.fail_scans = {world.store.scan_count + 1}
    with pytest.raises(StorageError):
        await payloads(world)
    assert await payloads(world) == [b"a"]
    assert world.broker.faults() == {}


async def test_a_topic_that_does_not_exist_has_no_messages_to_show(world):
    with pytest.raises(UnknownTopicError):
        await payloads(world)
    with pytest.raises(UnknownTopicError):
        await world.broker.inspect.find(b"t", (0, 0))


async def test_a_topic_that_is_deleted_between_two_priorities_has_no_more_to_show(world):
    peeked = []

    async def peek():
        try:
            peeked.append(await payloads(world))
        except UnknownTopicError as exc:
            peeked.append(exc)

    for priority in (Priority.NORMAL, Priority.HIGH):
        world.broker.publish_with(b"t", priority.encode(), PublishOptions(priority=priority))
    await world.restart()
    world.store.may_scan.clear()
    world.broker._engine.tasks.spawn(peek())
    await settle_down()
    deleted = world.broker.delete_topic(b"t")
    world.store.may_scan.set()
    await deleted
    await settle_down()
    assert peeked == [[b"high"]]


@pytest.mark.parametrize("count", [0, -1, 1001])
async def test_a_count_has_limits(count, world):
    await world.publish(b"t", b"a")
    with pytest.raises(InvalidOptionError):
        await payloads(world, count=count)


@pytest.mark.parametrize("word", [b"", b"0", b"x", b"-1", b"1001", b"9" * 30, b"1.5"])
def test_what_is_no_count(word):
    with pytest.raises(InvalidOptionError):
        parse_count(word)


def test_words_of_clients():
    assert parse_count(b"1000") == 1000
    assert [parse_state(word) for word in (b"ready", b"LEASED", b"Delayed", b"dead")] == list(State)
    for word in (b"", b"gone", b"\xff"):
        with pytest.raises(InvalidOptionError):
            parse_state(word)


async def test_the_rest_of_a_chunk_is_shown_also_behind_chunks_that_are_gone(world):
    await world.publish(b"t", b"0", b"1")
    await world.publish(b"t", b"2", b"3", b"4", b"5")
    holders = [await world.holding(b"t") for _ in range(4)]
    for holder in holders[:2]:
        holder.consumer.ack()
    await world.commit()
    assert await payloads(world) == [b"4", b"5"]
    assert await payloads(world, after=(0, 4)) == [b"5"]
    assert (await world.broker.inspect.find(b"t", (0, 5))).stored.payload == b"5"


@pytest.mark.parametrize("settings", [{}, {"ordered": True}])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_is_settled_is_not_shown_though_its_chunk_is_retained_behind_an_open_one(
    settings, is_restarted, world
):
    await world.broker.admin.create(b"t", {"retention": "forever", **settings}).wait()
    for keys in (b"aa", b"b"):  # the first two in one commit
        for key in keys:
            accepted = world.broker.publish_with(b"t", b"of %c" % key, PublishOptions(key=b"%c" % key))
        await accepted.commit.wait()
    consumer = await world.holding(b"t")
    while consumer.payloads != [b"of b"]:
        consumer = await world.holding(b"t")
    consumer.consumer.ack()
    if is_restarted:
        await world.restart()
    assert b"of b" not in await payloads(world)
    with pytest.raises(UnknownMessageError):
        await world.broker.inspect.find(b"t", (0, 2))
