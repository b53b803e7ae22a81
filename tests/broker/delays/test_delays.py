"""Messages published with a delay: kept in the store, due at their time and not before, exactly once."""

import asyncio
from collections.abc import Coroutine

import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message.ids import DelayedId, parse_delayed_id
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.fields import LimitPolicy, Side
from miniqueue.errors import OutcomeUnknownError, ReadOnlyError, TopicFullError
from miniqueue.errors.requests import UnknownMessageError, UnknownTopicError
from miniqueue.storage.format import keys
from miniqueue.storage.format.keys import Space
from tests.broker.support import World, started_world
from tests.fakes import START_MS, settle_down

T = b"letters"


async def delay(world: World, payload: bytes, seconds: float = 60, topic: bytes = T, **options: object) -> DelayedId:
    """Publish a message that is due in some seconds; return its id when it is durable."""
    accepted = world.broker.publish_with(topic, payload, PublishOptions(delay_seconds=seconds, **options))
    await accepted.commit.wait()
    return parse_delayed_id(accepted.message_id)


async def tick(world: World, seconds: float = 0) -> None:
    """Advance the clock, then let the broker find what is due."""
    world.clock.advance(seconds)
    world.broker.tick()
    for _ in range(5):
        await settle_down()


def figures(world: World, topic: bytes = T) -> tuple[int, ...]:
    stats = world.broker.stats()[topic]
    return stats.published, stats.ready, stats.delayed, stats.size_bytes


def stored(world: World, space: Space) -> list[bytes]:
    return [key for key in sorted(world.store.pairs()) if key[0] == space]


# --- when ----------------------------------------------------------------------------------------------------


async def test_a_message_is_there_when_its_time_has_come_and_not_a_millisecond_before(world):
    message_id = await delay(world, b"a", 1.5)
    assert message_id == (0, START_MS + 1500, 1)
    assert figures(world) == (0, 0, 1, 1)
    await tick(world, 1.499)
    assert figures(world) == (0, 0, 1, 1)
    await tick(world, 0.001)
    assert figures(world) == (1, 1, 0, 1)
    assert await world.drain(T) == [b"a"]


async def test_a_delay_is_rounded_up(world):
    assert (await delay(world, b"a", 0.0011)).due_at_ms == START_MS + 2


@pytest.mark.parametrize("options", [{"delay_seconds": 0.0}, {"at_ms": START_MS}, {"at_ms": 0}])
async def test_what_is_due_already_is_published_at_once_with_an_ordinary_id(options, world):
    accepted = world.broker.publish_with(T, b"a", PublishOptions(**options))
    assert accepted.message_id == b"0-0"
    await accepted.commit.wait()
    assert figures(world) == (1, 1, 0, 1)
    assert not stored(world, Space.DELAYS)


async def test_a_message_can_wait_for_a_hundred_million_years(world):
    at_ms = 1 << 62
    accepted = world.broker.publish_with(T, b"a", PublishOptions(at_ms=at_ms))
    await accepted.commit.wait()
    assert accepted.message_id == b"0-%d-1" % at_ms
    await tick(world, 10**9)
    assert figures(world) == (0, 0, 1, 1)
    world.clock.time_ms = at_ms
    await tick(world)
    assert await world.drain(T) == [b"a"]


async def test_they_come_in_the_order_in_which_they_are_due_and_as_published_among_equals(world):
    for payload, seconds in ((b"3", 3), (b"1a", 1), (b"2", 2), (b"1b", 1), (b"1c", 1)):
        await delay(world, payload, seconds)
    await tick(world, 5)
    assert await world.drain(T) == [b"1a", b"1b", b"1c", b"2", b"3"]


async def test_a_message_that_is_due_is_like_any_other_and_keeps_its_attributes(world):
    await world.publish(T, b"first")
    await delay(world, b"late", 1, headers=((b"trace", b"7f"),), key=b"ada", ttl_seconds=10)
    await tick(world, 2)
    first, late = await world.broker.inspect.peek(T)
    assert (first.stored.seq, late.stored.seq) == (0, 1)
    assert b"trace" in late.stored.attributes
    holder = await world.holding(T)
    holder.consumer.ack()
    late = (await world.holding(T)).leases[0]
    assert late.first_seq == 1
    expected = PublishOptions(((b"trace", b"7f"),), b"ada", 10).attributes(START_MS + 1000)
    assert late.attributes == [expected.encode()]


async def test_it_keeps_its_priority(world):
    for priority in Priority:
        await delay(world, priority.encode(), 1, priority=priority)
        await delay(world, priority.encode(), 1, priority=priority)
    await world.restart()
    await tick(world, 1)
    assert await world.drain(T) == [b"high", b"high", b"normal", b"normal", b"low", b"low"]
    assert [figures(world)[0], len(stored(world, Space.CURSOR))] == [6, 3]


async def test_its_unique_key_is_its_own_until_it_is_settled(world):
    options = PublishOptions(unique_key=b"k", delay_seconds=1, priority=Priority.HIGH)
    first = await world.broker.publish_unique(T, b"a", options)
    await first.commit.wait()
    assert (await world.broker.publish_unique(T, b"b", options)).message_id == first.message_id
    await tick(world, 1)
    await world.restart()
    again = await world.broker.publish_unique(T, b"b", options)
    assert (again.is_duplicate, again.message_id) == (True, b"0.high-0")
    assert await world.drain(T) == [b"a"]
    await world.commit()
    another = await world.broker.publish_unique(T, b"c", options)
    assert not another.is_duplicate
    await world.broker.delayed.cancel(T, parse_delayed_id(another.message_id))
    assert not (await world.broker.publish_unique(T, b"d", options)).is_duplicate


async def test_a_clock_that_is_set_back_makes_it_wait_and_one_set_forward_makes_it_due(world):
    await delay(world, b"a", 60)
    await tick(world, -3600)
    await tick(world, 3600)
    assert figures(world)[1:3] == (0, 1)
    await tick(world, 3600)
    await tick(world, -7200)
    assert await world.drain(T) == [b"a"]
    await tick(world, 7200)
    assert await world.drain(T) == []


async def test_a_tick_with_nothing_due_reads_nothing_and_writes_nothing(world):
    for number in range(20):
        await delay(world, b"x", 60 + number)
    await world.restart()
    scans, writes = world.store.scan_count, world.store.write_count
    for _ in range(10):
        await tick(world, 1)
    assert (world.store.scan_count, world.store.write_count) == (scans, writes)


async def test_a_delayed_message_that_comes_due_flushes_no_empty_commit_and_reads_once(world):
    await delay(world, b"due", 5)
    await delay(world, b"later", 50)
    scans, committer = world.store.scan_count, world.broker._engine.journal.committer
    last = committer.begun[1]
    await tick(world, 5)
    assert world.store.scan_count == scans + 1
    assert committer.begun[0] is last
    assert await world.drain(T) == [b"due"]
    await tick(world, 45)
    assert await world.drain(T) == [b"later"]


async def test_a_message_that_waits_for_its_commit_is_appended_after_it(world):
    world.broker.publish_with(T, b"due", PublishOptions(delay_seconds=5))
    await tick(world, 5)
    assert await world.drain(T) == [b"due"]
    assert figures(world)[2] == 0


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_only_topics_with_messages_that_wait_are_looked_at(is_restarted, world):
    for number in range(5):
        await world.publish(b"%d" % number, b"a")
    await delay(world, b"a", 5)
    await delay(world, b"b", 50)
    if is_restarted:
        await world.restart()
    await tick(world, 5)
    assert [topic.name for topic in world.broker.delayed._holding] == [T]
    await tick(world, 45)
    assert figures(world) == (2, 2, 0, 2)
    assert not world.broker.delayed._holding


async def test_topics_that_were_deleted_are_looked_at_no_more_although_nothing_was_due(world):
    for number in range(5):
        await delay(world, b"a", 50, topic=b"%d" % number)
        await world.broker.delete_topic(b"%d" % number)
    await delay(world, b"a", 50)
    await tick(world)
    assert [topic.name for topic in world.broker.delayed._holding] == [T]


async def test_many_are_appended_a_page_at_a_time_and_more_may_come_meanwhile(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.delays.delays.PAGE_ITEMS", 4)

    async with started_world() as world:
        for number in range(18):
            await delay(world, b"%d" % number, 1)
        await delay(world, b"later", 2)
        world.clock.advance(1)
        world.broker.tick()
        while figures(world)[1] < 8:
            await settle_down()
        await delay(world, b"between", 0.5)
        for _ in range(5):
            await settle_down()
        assert figures(world)[1:3] == (18, 2)
        assert max(len(stored_chunks(batch)) for batch in world.store.batches) == 1
        await tick(world, 0.5)
        await tick(world, 0.5)
        assert await world.drain(T) == [*(b"%d" % number for number in range(18)), b"between", b"later"]
        assert stored(world, Space.DELAYED) == []


def stored_chunks(batch: dict[bytes, bytes | None]) -> list[bytes]:
    return [key for key, value in batch.items() if key[0] == Space.CHUNK and value is not None]


async def test_what_is_due_in_one_topic_does_not_wait_for_another(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.delays.delays.PAGE_ITEMS", 2)

    async with started_world() as world:
        for number in range(9):
            await delay(world, b"%d" % number, 1, b"large")
        await delay(world, b"one", 1, b"small")
        await tick(world, 1)
        chunks = [keys.parse(key).topic_id for batch in world.store.batches for key in stored_chunks(batch)]
        assert chunks == [1, 2, 1, 1, 1, 1]


# --- what survives -------------------------------------------------------------------------------------------


async def test_everything_is_there_after_a_restart_also_what_became_due_meanwhile(world):
    for payload, seconds in ((b"b", 2), (b"a", 1), (b"c", 100)):
        await delay(world, payload, seconds)
    world.clock.advance(10)
    await world.restart()
    await tick(world)
    assert figures(world) == (2, 2, 1, 3)
    assert await world.drain(T) == [b"a", b"b"]
    assert await delay(world, b"d", 1) == (0, START_MS + 11_000, 4)
    await world.restart()
    await tick(world, 200)
    assert await world.drain(T) == [b"d", b"c"]


async def test_after_a_crash_at_any_commit_each_is_there_exactly_once(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.delays.delays.PAGE_ITEMS", 2)

    async with started_world() as world:
        for number in range(5):
            await delay(world, b"%d" % number, 1)
        published = len(world.store.batches)
        await tick(world, 2)
        full = world.store
        for count in range(published, len(full.batches) + 1):
            await world.broker.stop()
            world.store = await full.as_of(count)
            await world.start()
            await tick(world)
            assert await world.drain(T) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("is_applied", [False, True])
async def test_a_fault_while_they_become_due_neither_loses_nor_doubles_any(is_applied, world):
    for number in range(3):
        await delay(world, b"%d" % number, 1)
    world.store.applies_failed = is_applied
    world.store.fail_writes.add(world.store.write_count + 1)
    await tick(world, 1)
    await tick(world)
    assert figures(world)[1:3] == (3, 0)
    assert await world.drain(T) == [b"0", b"1", b"2"]


async def test_a_fault_while_one_is_published_leaves_the_counts_true(world):
    await delay(world, b"kept", 60)
    world.store.fail_writes.add(world.store.write_count + 1)
    with pytest.raises(OutcomeUnknownError):
        await delay(world, b"lost", 60)
    await settle_down()
    assert figures(world) == (0, 0, 1, 4)
    assert (await delay(world, b"next", 60)).serial == 2


async def test_what_cannot_be_read_is_tried_again(world):
    await delay(world, b"a", 1)
    world.store.fail_scans.add(world.store.scan_count + 1)
    await tick(world, 1)
    assert figures(world)[1:3] == (0, 1)
    await tick(world)
    assert await world.drain(T) == [b"a"]


async def test_damage_makes_the_topic_unreadable_and_others_go_on(world):
    await delay(world, b"a", 1)
    await delay(world, b"b", 1, b"other")
    (key, _) = stored(world, Space.DELAYED)
    world.store._put(key, b"damaged")
    await tick(world, 1)
    assert T in world.broker.faults()
    assert await world.drain(b"other") == [b"b"]


# --- cancelling and looking ----------------------------------------------------------------------------------


async def test_a_message_that_waits_can_be_cancelled_once(world):
    first, second = await delay(world, b"a", 1), await delay(world, b"bb", 1)
    await world.broker.delayed.cancel(T, first)
    assert figures(world) == (0, 0, 1, 2)
    with pytest.raises(UnknownMessageError):
        await world.broker.delayed.cancel(T, first)
    await world.restart()
    assert figures(world) == (0, 0, 1, 2)
    await tick(world, 1)
    assert await world.drain(T) == [b"bb"]
    with pytest.raises(UnknownMessageError):
        await world.broker.delayed.cancel(T, second)


@pytest.mark.parametrize("message_id", [(0, START_MS, 1), (1, START_MS + 60_000, 1), (0, 2**64, 1), (0, 1, 2**64)])
async def test_there_is_nothing_to_cancel_under_another_id(message_id, world):
    await delay(world, b"a")
    with pytest.raises(UnknownMessageError):
        await world.broker.delayed.cancel(T, DelayedId(*message_id))
    with pytest.raises(UnknownTopicError):
        await world.broker.delayed.cancel(b"other", DelayedId(*message_id))
    assert figures(world)[2] == 1


async def test_of_two_who_cancel_at_once_one_is_told_that_it_is_gone(world):
    message_id = await delay(world, b"a")
    cancels = [world.broker.delayed.cancel(T, message_id) for _ in range(2)]
    outcomes = await asyncio.gather(*cancels, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), UnknownMessageError]
    assert figures(world) == (0, 0, 0, 0)


async def outcome_of(work: Coroutine[object, object, None]) -> Exception | None:
    try:
        await work
    except UnknownMessageError as exc:
        return exc
    return None


async def test_a_message_is_either_cancelled_or_due_never_both(world):
    for number in range(4):
        message_id = await delay(world, b"%d" % number, 1)
        world.clock.advance(1)
        world.store.may_scan.clear()
        world.broker.tick()
        await settle_down()  # the page has been read, with the message in it
        cancelled = asyncio.create_task(outcome_of(world.broker.delayed.cancel(T, message_id)))
        for _ in range(number):
            await settle_down()
        world.store.may_scan.set()
        outcome = await cancelled
        for _ in range(3):
            await settle_down()
        assert len(await world.drain(T)) == isinstance(outcome, UnknownMessageError)
        assert figures(world)[1:3] == (0, 0)


async def test_one_is_found_by_its_id_until_it_is_due(world):
    message_id = await delay(world, b"a", 1, headers=((b"trace", b"7f"),))
    seen = await world.broker.inspect.find(T, message_id)
    assert (seen.message_id, seen.state, seen.due_at_ms) == (bytes(message_id), State.DELAYED, START_MS + 1000)
    assert (seen.stored.payload, seen.stored.published_at_ms) == (b"a", START_MS)
    await tick(world, 1)
    with pytest.raises(UnknownMessageError):
        await world.broker.inspect.find(T, message_id)


async def test_they_are_listed_by_due_time_beside_those_that_came_back_a_page_at_a_time(world):
    await world.publish(T, b"back 2", b"back 4", b"ready")
    for seconds in (2, 4):
        (await world.holding(T)).consumer.dack(seconds)
    for seconds in (1, 2, 3, 4, 5):
        await delay(world, b"new %d" % seconds, seconds)
    expected = [b"new 1", b"back 2", b"new 2", b"new 3", b"back 4", b"new 4", b"new 5"]
    seen = await world.broker.inspect.peek(T, State.DELAYED, 100)
    assert [one.stored.payload for one in seen] == expected
    assert [one.due_at_ms - START_MS for one in seen] == [1000, 2000, 2000, 3000, 4000, 4000, 5000]
    listed, after = [], None
    while page := await world.broker.inspect.peek(T, State.DELAYED, 2, after):
        listed += [one.stored.payload for one in page]
        after = page[-1].id
    assert listed == expected


async def test_a_purge_of_what_is_delayed_removes_them_by_age(world):
    await delay(world, b"old", 600)
    await world.publish(T, b"ready")
    world.clock.advance(100)
    await delay(world, b"young", 600)
    assert await world.broker.purge(T, State.READY) == 1
    assert await world.broker.purge(T, State.DELAYED, older_seconds=50) == 1
    assert figures(world) == (1, 0, 1, 5)
    await delay(world, b"another", 600)
    assert await world.broker.purge(T) == 2
    await world.restart()
    assert figures(world) == (1, 0, 0, 0)
    assert stored(world, Space.DELAYED) == []


async def test_a_purge_goes_through_many_pages(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.delays.delays.PAGE_ITEMS", 3)

    async with started_world() as world:
        for number in range(10):
            await delay(world, b"x", 60 + number % 2)
        assert await world.broker.purge(T, State.DELAYED) == 10
        assert figures(world) == (0, 0, 0, 0)


# --- limits, pauses, topics that go --------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"max_topic_messages": 2}, {"max_topic_bytes": 2}])
@pytest.mark.parametrize("policy", [LimitPolicy.REFUSE, LimitPolicy.DROP_OLDEST])
async def test_they_count_as_what_the_topic_holds_and_are_never_dropped_for_room(limits, policy):
    async with started_world(limits=BrokerLimits(policy=policy, **limits)) as world:
        await delay(world, b"a")
        await delay(world, b"b")
        with pytest.raises(TopicFullError):
            await delay(world, b"c")
        with pytest.raises(TopicFullError):
            world.broker.publish(T, [b"c"])
        await tick(world, 60)
        assert await world.drain(T) == [b"a", b"b"]


async def test_len_counts_them(world):
    await delay(world, b"a")
    await world.publish(T, b"b")
    assert world.broker.inspect.depth(T) == 2
    assert (await world.broker.inspect.stats(T))["depth"] == 2


async def test_they_go_with_their_topic(world):
    message_id = await delay(world, b"a", 1)
    await world.broker.delete_topic(T)
    await settle_down()
    assert stored(world, Space.DELAYED) == stored(world, Space.DELAYS) == []
    await world.publish(T, b"new")
    with pytest.raises(UnknownMessageError):
        await world.broker.delayed.cancel(T, message_id)
    await tick(world, 1)
    assert await world.drain(T) == [b"new"]


async def test_a_topic_that_is_deleted_while_they_are_read_stays_gone(world):
    await delay(world, b"a", 1)
    world.clock.advance(1)
    world.store.may_scan.clear()
    world.broker.tick()
    await settle_down()
    deletion = world.broker.delete_topic(T)
    world.store.may_scan.set()
    await deletion
    await settle_down()
    assert world.broker.topics() == []
    assert stored(world, Space.CHUNK) == []


async def test_nothing_is_appended_while_the_store_is_being_reopened(world):
    await delay(world, b"a", 1)
    world.broker._engine.journal.admission.shut(OutcomeUnknownError())
    await tick(world, 1)
    assert figures(world)[2] == 1
    with pytest.raises(ReadOnlyError):
        await world.broker.delayed.cancel(T, DelayedId(0, 1, 1))
    world.broker._engine.journal.admission.open()
    await tick(world)
    assert figures(world)[2] == 0


async def test_what_was_accepted_comes_also_into_a_topic_that_is_paused(world):
    await delay(world, b"a", 1)
    await world.broker.admin.pause(T, Side.IN).wait()
    await tick(world, 1)
    assert figures(world)[1:3] == (1, 0)
