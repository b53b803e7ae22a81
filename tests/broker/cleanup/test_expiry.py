"""Expired messages are never delivered; they are dropped or dead-lettered, even if no consumer reads."""

import orjson
import pytest

from miniqueue.broker.cleanup import expiry
from miniqueue.core.message import attributes
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.tools.audit.store import Audit
from miniqueue.tools.exporting.exporter import Exporter
from tests.broker.support import started_world
from tests.fakes import START_MS, settle_down
from tests.serving import eventually

SHORT, LONG = PublishOptions(ttl_seconds=1), PublishOptions(ttl_seconds=100)


async def publish(world, *payloads: bytes, topic: bytes = b"t", **options) -> None:
    """Publish each with its options, all in one commit; a digit in front is a time to live."""
    for payload in payloads:
        ttl = float(payload[:1]) if payload[:1].isdigit() else None
        commit = world.broker.publish_with(topic, payload, PublishOptions(ttl_seconds=ttl, **options)).commit
    await commit.wait()


async def set_up(world, **settings) -> None:
    await world.broker.admin.replace(b"t", settings)[0].wait()


async def pass_time(world, seconds: float, ticks: int = 3) -> None:
    world.clock.advance(seconds)
    for _ in range(ticks):
        world.broker.tick()
        await settle_down()


def figures(world, topic: bytes = b"t") -> dict[str, int]:
    stats = world.broker.stats()[topic]
    return {name: getattr(stats, name) for name in ("ready", "dropped", "moved", "expired", "size_bytes")}


def assert_sound(store) -> None:
    audit = Audit()
    for key, value in sorted(store.pairs().items()):
        audit.take(key, value)
    audit.finish()
    assert audit.problems.kept == []


async def received(world, count: int = 10, topic: bytes = b"t") -> list[bytes]:
    """Receive what there is without waiting, and acknowledge it."""
    answers = []
    options = ReceiveOptions(max_count=count, is_acked=True)
    world.broker.leases.receive(topic, options, answers.append, answers.append)
    await eventually(lambda: answers)
    return [payload for _, lease in answers[0].leases for payload in lease.payloads]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("count", [1, 2, 10])
async def test_what_has_expired_is_not_handed_out(restarts, count, world):
    await publish(world, b"1a", b"b", b"1c", b"1d", b"9e", b"f", b"1g")
    if restarts:
        await world.restart()
    world.clock.advance(2)
    taken = []
    for _ in range(4):
        taken += await received(world, count)
    assert taken == [b"b", b"9e", b"f"]
    await pass_time(world, 0)
    await world.commit()
    assert figures(world) == {"ready": 0, "dropped": 4, "moved": 0, "expired": 4, "size_bytes": 0}
    assert_sound(world.store)


async def test_a_message_is_handed_out_up_to_its_time_and_not_at_it(world):
    await publish(world, b"1a", b"1b")
    world.clock.advance(0.999)
    assert await received(world, 1) == [b"1a"]
    world.clock.advance(0.001)
    assert await received(world, 1) == []


async def test_the_parts_of_a_lease_are_settled_one_by_one(world):
    await publish(world, b"a", b"1b", b"c", b"1d", b"e")
    world.clock.advance(2)
    answers = []
    world.broker.leases.receive(b"t", ReceiveOptions(max_count=5), answers.append, answers.append)
    (answer,) = answers
    assert [lease.payloads for _, lease in answer.leases] == [[b"a"], [b"c"], [b"e"]]
    receipts = [b"%b%d" % (answer.prefix, lease.receipt) for _, lease in answer.leases]
    assert world.broker.leases.ack(b"t", receipts[:2]) == [True, True]
    assert world.broker.leases.nack(b"t", receipts[2:]) == [True]
    await world.commit()
    assert await received(world) == [b"e"]
    await world.restart()
    assert_sound(world.store)
    assert figures(world)["size_bytes"] == 0


@pytest.mark.parametrize("act", ["nack", "back", "dack"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_leased_message_expires_when_it_comes_back(act, restarts, world):
    await publish(world, b"1a")
    held = await world.holding(b"t")
    await pass_time(world, 5)
    assert figures(world)["expired"] == 0
    getattr(held.consumer, act)(*[1.0] if act == "dack" else [])
    await world.commit()
    if restarts:
        await world.restart()
    world.clock.advance(2)
    world.broker.tick()
    await settle_down()
    assert await received(world) == []
    await pass_time(world, 0)
    assert figures(world) == {"ready": 0, "dropped": 1, "moved": 0, "expired": 1, "size_bytes": 0}
    assert_sound(world.store)


@pytest.mark.parametrize("act", ["nack", "back", "dack"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_what_came_back_goes_where_nobody_reads(act, restarts, world):
    await publish(world, b"8a")
    held = await world.holding(b"t")
    getattr(held.consumer, act)(*[1e6] if act == "dack" else [])
    held.consumer.close()
    await world.commit()
    if restarts:
        await world.restart()
    await pass_time(world, 5)
    assert figures(world)["expired"] == 0
    await pass_time(world, 5)
    assert figures(world) == {"ready": 0, "dropped": 1, "moved": 0, "expired": 1, "size_bytes": 0}
    assert_sound(world.store)


@pytest.mark.parametrize("restarts", [False, True])
async def test_what_nobody_reads_goes(restarts, world):
    for _ in range(20):
        await publish(world, *[b"1%d" % n for n in range(50)])
    await publish(world, b"9z")
    if restarts:
        await world.restart()
    await pass_time(world, 2)
    await world.commit()
    assert figures(world) == {"ready": 1, "dropped": 1000, "moved": 0, "expired": 1000, "size_bytes": 2 + 13}
    assert_sound(world.store)
    await pass_time(world, 8)
    await world.commit()
    assert figures(world)["expired"] == 1001
    assert not [key for key in world.store.pairs() if key[0] in (0x20, 0x21)]


async def test_a_head_that_lives_is_looked_at_once(world):
    await publish(world, b"9a", b"9b")
    await world.restart()
    await pass_time(world, 1, ticks=5)
    looks = world.store.scan_count
    await pass_time(world, 1, ticks=5)
    assert world.store.scan_count == looks
    await pass_time(world, 8)
    assert figures(world)["expired"] == 2


@pytest.mark.parametrize("settings", [{}, {"fair": True}])
@pytest.mark.parametrize("way", ["front", "delayed"])
async def test_the_first_of_a_log_that_was_empty_at_the_last_look_goes_too(way, settings, world):
    await set_up(world, **settings)
    await publish(world, b"9a")
    holder = await world.holding(b"t")
    if way == "front":
        holder.consumer.close()
    else:
        holder.consumer.dack(100)
    await pass_time(world, 1)
    await publish(world, b"1b")
    await pass_time(world, 2)
    assert figures(world)["expired"] == 1


async def test_topics_are_looked_at_in_turn(monkeypatch):
    monkeypatch.setattr("miniqueue.broker.cleanup.expiry_sweep.MAX_TOPICS_IN_TICK", 3)
    monkeypatch.setattr("miniqueue.broker.cleanup.expiry_sweep.MAX_LOOKS_IN_TICK", 2)

    async with started_world() as world:
        names = [b"t%d" % n for n in range(20)]
        for name in names:
            await publish(world, b"1a", topic=name)
        await pass_time(world, 2, ticks=40)
        assert [figures(world, name)["expired"] for name in names] == [1] * 20


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_topic_says_how_long_messages_live_that_do_not(restarts, world):
    await set_up(world, ttl_seconds=5)
    await world.publish(b"t", b"plain")
    await publish(world, b"k", key=b"key")
    await publish(world, b"9own")
    if restarts:
        await world.restart()
    world.clock.advance(4.999)
    assert await received(world, 1) == [b"plain"]
    world.clock.advance(0.001)
    assert await received(world) == [b"9own"]


async def test_a_time_to_live_that_is_set_later_is_for_what_is_there(world):
    await world.publish(b"t", b"a", b"b")
    await pass_time(world, 10)
    assert figures(world)["ready"] == 2
    await world.broker.admin.change(b"t", {"ttl_seconds": 10}).wait()
    await pass_time(world, 0)
    assert figures(world)["expired"] == 2


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
async def test_what_has_expired_is_a_dead_letter_where_the_topic_says_so(reads, restarts, world):
    await set_up(world, expired="dead-letter")
    await publish(world, b"1a", b"1b", key=b"k")
    if restarts:
        await world.restart()
    world.clock.advance(2)
    if reads:
        assert await received(world) == []
    await pass_time(world, 0)
    await world.commit()
    assert figures(world) == {"ready": 0, "dropped": 0, "moved": 2, "expired": 2, "size_bytes": 0}
    held = await world.holding(b"t.dlq")
    found = attributes.decode(held.leases[0].attributes[0])
    assert (held.leases[0].payloads, found.key, found.expires_at_ms) == ([b"1a"], b"k", 0)
    assert (found.origin.topic, found.origin.reason, found.origin.died_at_ms) == (b"t", b"expired", START_MS + 2000)
    assert_sound(world.store)


async def test_a_dead_letter_that_expires_is_dropped(world):
    await set_up(world, expired="dead-letter")
    await world.broker.admin.replace(b"t.dlq", {"ttl_seconds": 5, "expired": "dead-letter"})[0].wait()
    await publish(world, b"1a")
    await pass_time(world, 2)
    assert figures(world, b"t.dlq")["ready"] == 1
    await pass_time(world, 5)
    assert figures(world, b"t.dlq") == {"ready": 0, "dropped": 1, "moved": 0, "expired": 1, "size_bytes": 0}
    assert world.broker.topics() == [b"t", b"t.dlq"]


async def test_where_there_is_no_room_for_dead_letters_they_are_dropped(world):
    await set_up(world, expired="dead-letter")
    await world.broker.admin.replace(b"t.dlq", {"max_messages": 1})[0].wait()
    await publish(world, b"1a")
    await pass_time(world, 2)
    await publish(world, b"1b")
    await pass_time(world, 2)
    assert figures(world) == {"ready": 0, "dropped": 1, "moved": 1, "expired": 2, "size_bytes": 0}


@pytest.mark.parametrize("waits", [False, True])
async def test_much_that_has_expired_takes_several_turns(monkeypatch, waits):
    monkeypatch.setattr(expiry, "MAX_DROPPED_IN_TURN", 10)

    async with started_world() as world:
        for _ in range(10):
            await publish(world, *[b"1x"] * 10)
        await publish(world, b"live")
        world.clock.advance(2)
        answers = []
        options = ReceiveOptions(max_count=5, wait_seconds=10.0 if waits else 0.0, is_acked=True)
        world.broker.leases.receive(b"t", options, answers.append, answers.append)
        assert answers == []
        await settle_down()
        for _ in range(100):
            await settle_down()
        assert [lease.payloads for _, lease in answers[0].leases] == [[b"live"]]


@pytest.mark.parametrize("settings", [{"max_rate": 1}, {"max_concurrency": 2}, {"key_max_rate": 1}])
async def test_what_has_expired_does_not_count_for_caps(settings, world):
    await set_up(world, **settings)
    await publish(world, *[b"1x"] * 50, b"live")
    world.clock.advance(2)
    assert await received(world, 1) == [b"live"]


async def test_a_paused_topic_lets_messages_expire(world):
    await publish(world, b"1a")
    await world.broker.admin.pause(b"t").wait()
    await pass_time(world, 2)
    assert figures(world)["expired"] == 1


async def test_a_consumer_that_waits_is_not_given_what_has_expired(world):
    await publish(world, b"5a")
    held = await world.holding(b"t")
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    world.clock.advance(6)
    held.consumer.nack()
    await settle_down()
    assert waiting.leases == []
    await world.publish(b"t", b"new")
    await settle_down()
    assert [lease.payloads for lease in waiting.leases] == [[b"new"]]


@pytest.mark.parametrize("number", range(1, 6))
async def test_a_fault_of_the_store_leaves_what_is_true(number, world):
    await set_up(world, expired="dead-letter")
    await publish(world, b"1a", b"1b", b"c")
    world.store.fail_writes = {world.store.write_count + number}
    for _ in range(4):
        await pass_time(world, 2)
        for _ in range(20):
            await settle_down()
    assert figures(world)["ready"] == 1
    assert figures(world, b"t.dlq")["ready"] == 2
    world.store.fail_writes = set()
    await world.restart()
    assert_sound(world.store)
    assert await world.drain(b"t") == [b"c"]
    assert await world.drain(b"t.dlq") == [b"1a", b"1b"]


async def test_each_message_is_in_one_place_after_every_commit(world):
    await set_up(world, expired="dead-letter")
    for number in range(6):
        await publish(world, *[b"%d-%d-%d" % (ttl, number, n) for n in range(3) for ttl in (1, 9)])
    held = await world.holding(b"t")
    await pass_time(world, 2)
    held.consumer.nack()
    await pass_time(world, 0)
    await world.commit()
    lived = await world.drain(b"t")
    await world.commit()
    assert lived == [b"9-%d-%d" % (number, n) for number in range(6) for n in range(3)]
    assert len(await world.drain(b"t.dlq")) == 18
    for count in range(len(world.store.batches) + 1):
        crashed = await world.store.as_of(count)
        assert_sound(crashed)
        lines = map(orjson.loads, Exporter().lines(iter(sorted(crashed.pairs().items()))))
        texts = [line["text"] for line in lines if "text" in line]
        assert len(texts) == len(set(texts)), "in two places"


async def test_a_topic_that_is_deleted_while_it_is_looked_into_does_no_harm(world):
    await publish(world, b"1a", b"1b")
    await world.restart()
    world.store.may_scan.clear()
    await pass_time(world, 2)
    await world.broker.delete_topic(b"t")
    world.store.may_scan.set()
    await settle_down()
    await publish(world, b"9c")
    await pass_time(world, 1)
    assert figures(world)["expired"] == 0
    assert await received(world) == [b"9c"]
