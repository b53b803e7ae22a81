"""Dead letters: after so many deliveries, however a message came back; in one of two topics at every moment."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.message import Counts
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.errors import OutcomeUnknownError
from miniqueue.tools.audit.store import Audit
from tests.broker.support import started_world
from tests.fakes import START_MS, broker_on, settle_down

T, DEAD = b"t", b"t.dlq"
ACTS = {
    "nack": (lambda consumer: consumer.nack(), "nacks"),
    "back": (lambda consumer: consumer.back(), "backs"),
    "dack": (lambda consumer: consumer.dack(0.0), "dacks"),
    "disconnect": (lambda consumer: consumer.close(), "disconnects"),
}


async def having(world, settings: dict, *payloads: bytes) -> None:
    await world.broker.admin.create(T, settings).wait()
    for payload in payloads:
        await world.publish(T, payload)


async def letters(world, topic: bytes = DEAD) -> list[tuple[bytes, Attributes]]:
    """Take and acknowledge every dead letter."""
    await world.commit()
    consumer = world.consumer(topic)
    await consumer.drain_all()
    return [(lease.payloads[0], attributes.decode((lease.attributes or [b""])[0])) for lease in consumer.leases]


async def give_back(world, act, times: int = 1) -> None:
    for _ in range(times):
        world.clock.advance(seconds=1)
        world.broker.tick()
        held = await world.holding(T)
        act(held.consumer)
        held.consumer.close()
        await world.commit()


def assert_sound(store) -> None:
    audit = Audit()
    for key, value in sorted(store.pairs().items()):
        audit.take(key, value)
    audit.finish()
    assert [str(problem) for problem in audit.problems.kept] == []


@pytest.mark.parametrize("name", ACTS)
async def test_what_was_delivered_as_often_as_it_may_be_is_a_dead_letter_with_its_origin(name):
    act, cause = ACTS[name]

    async with started_world() as world:
        await having(world, {"max_deliveries": 3}, b"a")
        await give_back(world, act, times=2)
        assert DEAD not in world.broker.topics()
        await give_back(world, act)
        assert (world.broker.stats()[T].ready, world.broker.stats()[T].moved) == (0, 1)
        assert (world.broker.stats()[T].dropped, world.broker.stats()[T].size_bytes) == (0, 0)
        assert_sound(world.store)
        counts = Counts(**{cause: 3})
        origin = Origin(T, 0, 0, START_MS, START_MS + 3000, counts, b"max_deliveries")
        assert await letters(world) == [(b"a", Attributes(origin=origin))]


async def test_a_lease_that_is_over_counts_too(world):
    await having(world, {"max_deliveries": 1}, b"a")
    world.broker.leases.receive(T, ReceiveOptions(), lambda _: None, lambda _: None)
    world.clock.advance(seconds=31)
    world.broker.tick()
    ((payload, found),) = await letters(world)
    assert (payload, found.origin.counts) == (b"a", Counts(timeouts=1))


async def test_without_settings_there_is_no_limit(world):
    await world.publish(T, b"a")
    await give_back(world, ACTS["nack"][0], times=50)
    assert world.broker.topics() == [T]


async def test_attributes_go_along_but_a_dead_letter_does_not_expire(world):
    await having(world, {"max_deliveries": 1, "dead_letter_topic": "lost"})
    given = Attributes(((b"trace", b"7f"),), b"ada", START_MS + 1_000_000, b"17")
    await world.broker.publish(T, [b"a"], [given.encode()]).commit.wait()
    await give_back(world, ACTS["nack"][0])
    ((payload, found),) = await letters(world, b"lost")
    assert payload == b"a"
    assert found._replace(origin=None) == given._replace(expires_at_ms=0)


@pytest.mark.parametrize("act", ["nack", "reject"])
async def test_a_message_is_in_exactly_one_of_the_two_topics_after_every_crash(act, world):
    await having(world, {"max_deliveries": 2}, b"a", b"b", b"c")
    for _ in range(2):
        received = []
        world.broker.leases.receive(T, ReceiveOptions(max_count=3), received.append, received.append)
        receipts = [
            received[0].prefix + b"%d" % (lease.receipt + n)
            for _, lease in received[0].leases
            for n in range(lease.count)
        ]
        if act == "reject":
            world.broker.leases.reject(T, receipts, b"broken")
            break
        world.broker.leases.nack(T, receipts[:2])
        world.broker.leases.ack(T, receipts[2:])
        await world.commit()
    await world.commit()
    assert world.broker.stats()[DEAD].ready == (3 if act == "reject" else 2)
    for batch_count in range(len(world.store.batches) + 1):
        store = await world.store.as_of(batch_count)
        assert_sound(store)
        broker = broker_on(store, world.clock)
        await broker.start()
        stats = broker.stats()
        held = {name: topic.ready for name, topic in stats.items()}
        published = stats[T].published if T in stats else 0
        gone = stats[T].acknowledged if T in stats else 0
        assert held.get(T, 0) + held.get(DEAD, 0) == published - gone, (batch_count, held)
        await broker.stop()


async def test_a_dead_letter_that_comes_back_too_often_stays_and_one_that_is_rejected_goes(world):
    await having(world, {"max_deliveries": 1}, b"a")
    await world.broker.admin.create(DEAD, {"max_deliveries": 1}).wait()
    await give_back(world, ACTS["nack"][0])
    for _ in range(3):
        held = await world.holding(DEAD)
        held.consumer.nack()
        held.consumer.close()
    assert world.broker.topics() == [T, DEAD]
    received = []
    world.broker.leases.receive(DEAD, ReceiveOptions(), received.append, received.append)
    receipt = received[0].prefix + b"%d" % received[0].leases[0][1].receipt
    assert world.broker.leases.reject(DEAD, [receipt], b"useless") == [True]
    stats = world.broker.stats()[DEAD]
    assert (stats.ready, stats.dropped, stats.moved) == (0, 1, 0)


async def test_of_messages_rejected_together_only_those_count_as_moved_that_were_no_dead_letters(world):
    await having(world, {"max_deliveries": 1}, b"a")
    held = await world.holding(T)
    held.consumer.nack()
    world.broker.publish(DEAD, [b"stranger"])
    await world.commit()
    got = []
    world.broker.leases.receive(DEAD, ReceiveOptions(2), got.append, got.append)
    ((_, lease),) = got[0].leases
    receipts = [got[0].prefix + b"%d" % (lease.receipt + n) for n in range(2)]
    assert world.broker.leases.reject(DEAD, receipts, b"useless") == [True, True]
    stats = world.broker.stats()[DEAD]
    assert (stats.dropped, stats.moved, stats.ready) == (1, 1, 0)
    await world.commit()
    assert_sound(world.store)


@pytest.mark.parametrize("limits", [BrokerLimits(max_topics=1), BrokerLimits(max_topic_messages=1)])
async def test_what_finds_no_room_comes_back_as_if_there_were_no_limit(limits):
    async with started_world(limits=limits) as world:
        await having(world, {"max_deliveries": 1}, b"a")
        if not limits.max_topics:
            await world.publish(DEAD, b"full")
        await give_back(world, ACTS["nack"][0])
        assert world.broker.stats()[T].ready == 1
        await world.broker.delete_topic(DEAD)
        if not limits.max_topics:
            await give_back(world, ACTS["nack"][0])
            assert [payload for payload, _ in await letters(world)] == [b"a"]


async def test_a_fault_of_the_store_undoes_both_or_neither(world):
    await having(world, {"max_deliveries": 1}, b"a")
    held = await world.holding(T)
    world.store.fail_writes = {world.store.write_count + 1}
    held.consumer.nack()
    with pytest.raises(OutcomeUnknownError):
        await world.commit()
    await settle_down()
    stats = world.broker.stats()
    assert stats[T].ready == 1
    assert DEAD not in world.broker.topics()
    held.consumer.close()
    await give_back(world, ACTS["nack"][0])  # the settings are in force again, too
    assert [payload for payload, _ in await letters(world)] == [b"a"]


async def test_settings_hold_after_a_restart(world):
    await having(world, {"max_deliveries": 2}, b"a")
    await give_back(world, ACTS["nack"][0])
    await world.restart()
    await give_back(world, ACTS["nack"][0])
    assert [payload for payload, _ in await letters(world)] == [b"a"]
    await world.restart()
    assert world.broker.stats()[T].moved == 1


async def test_what_failed_waits_as_long_as_the_retry_policy_says(world):
    await having(world, {"retry_delays": [5, 60]}, b"a")
    for seconds in (5, 60, 60):
        held = await world.holding(T)
        held.consumer.nack()
        await world.commit()
        assert_sound(world.store)
        assert world.broker.stats()[T].delayed == 1
        world.clock.advance(seconds=seconds - 1)
        world.broker.tick()
        held.consumer.request()
        assert held.consumer.is_waiting
        world.clock.advance(seconds=1.001)
        world.broker.tick()
        assert not held.consumer.is_waiting
        held.consumer.close()


@pytest.mark.parametrize("name", ["back", "dack", "disconnect"])
async def test_what_did_not_fail_does_not_wait(name, world):
    await having(world, {"retry_min_seconds": 60}, b"a")
    await give_back(world, ACTS[name][0], times=3)


async def test_delays_survive_a_restart(world):
    await having(world, {"retry_min_seconds": 60}, b"a")
    await give_back(world, ACTS["nack"][0])
    await world.restart()
    assert world.broker.stats()[T].delayed == 1
    world.clock.advance(seconds=61)
    world.broker.tick()
    assert (await world.holding(T)).payloads == [b"a"]
