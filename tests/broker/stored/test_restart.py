"""Restarts: everything unsettled comes again, once, in order, however much there is and however little memory."""

import pytest

from miniqueue.broker.engine import engine as engine_module
from miniqueue.broker.stored import load
from miniqueue.core.cursor import cursor as cursor_limits
from miniqueue.core.message.message import Counts
from miniqueue.errors import CorruptionError
from miniqueue.storage.format import keys
from tests.broker.support import started_world
from tests.fakes import FaultyStore, settle_down


@pytest.fixture
def small_windows(monkeypatch):
    """Make everything that bounds memory tiny."""
    monkeypatch.setattr(cursor_limits, "LOG_WINDOW_BYTES", 1000)
    monkeypatch.setattr(cursor_limits, "RECORD_WINDOW_BYTES", 600)
    monkeypatch.setattr(load, "PAGE_ITEMS", 5)
    monkeypatch.setattr(load, "PAGE_BYTES", 400)


def numbers(count: int) -> list[bytes]:
    return [b"%04d" % n for n in range(count)]


async def test_a_leased_message_comes_again_at_its_place(world):
    await world.publish_each(b"t", *numbers(6))
    holders = [await world.holding(b"t") for _ in range(4)]
    holders[1].consumer.ack()
    holders[3].consumer.ack()
    await world.restart()
    assert await world.drain(b"t") == [b"0000", b"0002", b"0004", b"0005"]


async def test_returned_messages_come_again_where_they_were_with_their_counts(world):
    await world.publish(b"t", b"nacked", b"backed", b"dacked", b"left", b"plain")
    holders = [await world.holding(b"t") for _ in range(4)]
    holders[0].consumer.nack()
    holders[1].consumer.back()
    holders[2].consumer.dack(5)
    holders[3].consumer.close()
    await world.restart()
    seen = [await world.holding(b"t") for _ in range(4)]
    assert [(h.payloads[0], h.leases[0].counts) for h in seen] == [
        (b"left", Counts(disconnects=1)),
        (b"nacked", Counts(nacks=1)),
        (b"plain", Counts()),
        (b"backed", Counts(backs=1)),
    ]
    world.clock.advance(5)
    world.broker.tick()
    delayed = await world.holding(b"t")
    assert (delayed.payloads, delayed.leases[0].counts) == ([b"dacked"], Counts(dacks=1))


async def test_what_became_due_while_the_broker_was_down_comes_first(world):
    await world.publish(b"t", b"a", b"b")
    (await world.holding(b"t")).consumer.dack(5)
    await world.broker.stop()
    world.clock.advance(5)
    await world.start()
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_a_leased_returned_message_comes_again_at_its_place_too(world):
    await world.publish(b"t", b"a", b"b")
    holder = await world.holding(b"t")
    holder.consumer.nack()
    holder.consumer.request()
    await world.restart()
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_a_straggler_in_front_of_many_finished_chunks_costs_one_entry(world):
    await world.publish_each(b"t", *numbers(50))
    await world.holding(b"t")
    assert len(await world.drain(b"t")) == 49
    await world.commit()
    assert len([key for key in world.store.pairs() if key[:1] in (b"\x12", b"\x13", b"\x20")]) == 2
    await world.restart()
    assert await world.drain(b"t") == [b"0000"]
    await world.commit()
    assert len([key for key in world.store.pairs() if key[:1] >= b"\x12"]) == 0


async def test_a_chunk_that_is_kept_inside_a_gap_does_not_come_again(world):
    await world.publish_each(b"t", *numbers(3))
    kept = world.store.pairs()[keys.chunk(1, 0, 1)]
    await world.holding(b"t")
    (await world.holding(b"t")).consumer.ack()
    await world.broker.stop()
    world.store._values[keys.chunk(1, 0, 1)] = kept  # a group may still need it
    await world.start()
    assert await world.drain(b"t") == [b"0000", b"0002"]


@pytest.mark.usefixtures("small_windows")
async def test_a_backlog_larger_than_memory_comes_once_and_in_order(world):
    await world.publish_each(b"t", *numbers(300))
    await world.restart()
    consumer, peak_bytes = world.consumer(b"t"), 0
    consumer.consumer.request()
    for _ in range(300):
        await settle_down()
        peak_bytes = max(peak_bytes, world.broker._engine.topics.by_name[b"t"].size_bytes)
        consumer.consumer.ack()
        consumer.consumer.request()
    assert consumer.payloads == numbers(300)
    assert peak_bytes <= 1000 + 400


@pytest.mark.usefixtures("small_windows")
async def test_publishing_during_cold_reads_keeps_the_order(world):
    await world.publish_each(b"t", *numbers(50))
    await world.restart()
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    for number in range(50, 100):
        world.broker.publish(b"t", [b"%04d" % number])
        await settle_down()
        if consumer.consumer.is_waiting:
            continue
        consumer.consumer.ack()
        consumer.consumer.request()
    assert consumer.payloads + await _rest(consumer) == numbers(100)


async def _rest(consumer) -> list[bytes]:
    await settle_down()
    consumer.consumer.ack()
    return await consumer.drain_all()


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("settle", ["nack", "back", "dack", "close"])
async def test_more_returned_messages_than_memory_come_once_and_in_order(settle, world):
    await world.publish(b"t", *numbers(60))
    holders = [await world.holding(b"t") for _ in range(60)]
    for holder in holders:
        getattr(holder.consumer, settle)(*([1] if settle == "dack" else []))
    world.clock.advance(1)
    world.broker.tick()
    expected = numbers(60) if settle in ("back", "dack") else numbers(60)[::-1]
    for _ in range(2):
        held = [await world.holding(b"t") for _ in range(20)]
        assert [holder.payloads[0] for holder in held] == expected[:20]
        await world.restart()
    assert await world.drain(b"t") == expected
    await world.commit()
    assert [key for key in world.store.pairs() if key[:1] >= b"\x12"] == []


async def test_starting_reads_no_messages(world):
    await world.publish_each(b"t", *([b"x" * 1000] * 100))
    world.store.scanned_bytes = 0
    await world.restart()
    assert world.store.scanned_bytes < 500


async def test_eviction_between_topics_loses_and_doubles_nothing(monkeypatch):
    monkeypatch.setattr(engine_module, "CACHE_BYTES", 2000)

    async with started_world() as world:
        names = [b"a", b"b", b"c"]
        for payload in numbers(40):
            for name in names:
                await world.publish(name, payload)
        assert sum(topic.size_bytes for topic in world.broker._engine.topics.by_name.values()) < 2500
        consumers = {name: world.consumer(name) for name in names}
        for consumer in consumers.values():
            consumer.consumer.request()
        for _ in range(39):
            await settle_down()
            for consumer in consumers.values():
                consumer.consumer.ack()
                consumer.consumer.request()
        await settle_down()
        assert [consumer.payloads for consumer in consumers.values()] == [numbers(40)] * 3


async def test_the_latest_messages_of_many_topics_do_not_add_up_in_memory(monkeypatch):
    monkeypatch.setattr(engine_module, "CACHE_BYTES", 2000)

    async with started_world() as world:
        for number in range(20):
            await world.publish(b"%d" % number, bytes(500))
        assert sum(topic.size_bytes for topic in world.broker._engine.topics.by_name.values()) <= 2000
        assert [await world.drain(b"%d" % number) for number in range(20)] == [[bytes(500)]] * 20


async def test_a_missing_chunk_is_reported_and_nothing_of_the_topic_is_delivered_past_it(world):
    await world.publish_each(b"t", b"a", b"b", b"c")
    await world.publish(b"u", b"x")
    await world.broker.stop()
    del world.store._values[keys.chunk(1, 0, 1)]
    await world.start()
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    await settle_down()
    assert consumer.leases == []
    assert isinstance(consumer.errors[0], CorruptionError)
    assert "messages from 1 on are missing" in str(world.broker.faults()[b"t"])
    with pytest.raises(CorruptionError):
        consumer.consumer.request()
    assert await world.drain(b"u") == [b"x"]


def damage(world, key):
    value = world.store._values[key]
    world.store._values[key] = value[:-6] + b"XX" + value[-4:]


async def test_a_topic_whose_last_chunk_is_damaged_is_reported_and_overwrites_nothing(world):
    await world.publish(b"u", b"x")
    await world.publish_each(b"t", b"a", b"b")
    await world.broker.stop()
    damage(world, keys.chunk(2, 0, 1))
    before = world.store.pairs()
    await world.start()
    assert set(world.broker.faults()) == {b"t"}
    with pytest.raises(CorruptionError):
        world.consumer(b"t").consumer.request()
    await world.publish(b"t", b"c")
    assert before.items() <= world.store.pairs().items()
    assert await world.drain(b"u") == [b"x"]
    await world.restart()
    await world.publish(b"t", b"d")
    assert len([key for key in world.store.pairs() if key.startswith(keys.chunk(2, 0, 0)[:14])]) == 4
    assert await world.broker.delete_topic(b"t")


async def test_a_damaged_chunk_is_reported(world):
    await world.publish_each(b"t", b"a", b"b")
    await world.broker.stop()
    damage(world, keys.chunk(1, 0, 0))
    await world.start()
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    await settle_down()
    assert isinstance(consumer.errors[0], CorruptionError)
    assert set(world.broker.faults()) == {b"t"}
    with pytest.raises(CorruptionError):
        consumer.consumer.request()


async def test_a_failing_scan_fails_who_waits_and_no_later_one(world):
    await world.publish(b"t", b"a")
    await world.restart()
    world.store.fail_scans = set(range(world.store.scan_count, world.store.scan_count + 9))
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    await settle_down()
    assert (len(consumer.errors), consumer.consumer.is_waiting) == (1, False)
    assert world.broker.faults() == {}  # it is not damage: whoever asks again is served
    await world.publish(b"t", bytes(1000))
    assert world.broker.stats()[b"t"].ready == 2
    assert world.broker._engine.topics.by_name[b"t"].cursors[0].log._early is None  # what is not loaded is not kept
    world.store.fail_scans = set()
    consumer.consumer.request()
    await settle_down()
    assert consumer.payloads == [b"a"]


async def test_a_missing_cursor_stops_the_start(world):
    await world.publish(b"t", b"a")
    await world.broker.stop()
    value = world.store._values.pop(keys.cursor(1, 0, 0))
    with pytest.raises(CorruptionError, match="cursor is missing"):
        await world.start()
    world.store._values[keys.cursor(1, 0, 0)] = value
    await world.start()


async def test_a_crash_behind_any_commit_gives_exactly_what_was_committed(world):
    await world.publish_each(b"t", *numbers(4))
    for settle in ("nack", "ack", "back", "dack"):
        holder = await world.holding(b"t")
        getattr(holder.consumer, settle)(*([0] if settle == "dack" else []))
        await world.commit()
    whole = world.store
    expected = [1, 2, 3, 4, 4, 3, 3, 3]
    for count, left in enumerate(expected, 1):
        world.store = await FaultyStore.as_of(whole, count)
        await world.broker.stop()
        world.clock.advance(1)
        await world.start()
        assert len(await world.drain(b"t")) == left


async def test_a_start_reads_many_topics_at_once(world):
    for n in range(200):
        world.broker.publish(b"topic-%d" % n, [b"a"])
    await world.commit()
    scans_before = world.store.scan_count
    await world.restart()
    assert len(world.broker.topics()) == 200
    assert world.store.scan_count - scans_before < 20  # one for each space of keys
