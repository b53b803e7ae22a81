"""Attributes go with their message wherever it goes, and count in what a topic holds."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message.attributes import Attributes
from miniqueue.errors import TopicFullError
from miniqueue.tools.audit.store import Audit
from tests.broker.support import world_with

TRACED = Attributes(headers=((b"trace", b"7f"),)).encode()
KEYED = Attributes(key=b"ada").encode()


def delivered(consumer) -> list[tuple[bytes, list[bytes] | None]]:
    return [(lease.payloads[0], lease.attributes) for lease in consumer.leases]


def assert_sound(store) -> None:
    audit = Audit()
    for key, value in sorted(store.pairs().items()):
        audit.take(key, value)
    audit.finish()
    assert audit.problems.kept == []


async def test_a_delivery_has_the_attributes_of_its_message(world):
    await world.broker.publish(b"t", [b"a", b"b"], [TRACED, b""]).commit.wait()
    await world.publish(b"t", b"c")
    consumers = [await world.holding(b"t") for _ in range(3)]
    assert [delivered(consumer)[0] for consumer in consumers] == [(b"a", [TRACED]), (b"b", [b""]), (b"c", None)]


@pytest.mark.parametrize("act", ["nack", "back", "dack", "close"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_attributes_come_back_with_the_message(act, restarts, world):
    await world.broker.publish(b"t", [b"a"], [KEYED]).commit.wait()
    held = await world.holding(b"t")
    getattr(held.consumer, act)(*[5.0] if act == "dack" else [])
    await world.commit()
    assert_sound(world.store)
    if restarts:
        await world.restart()
    world.clock.advance(seconds=10)
    world.broker.tick()
    again = await world.holding(b"t")
    assert delivered(again) == [(b"a", [KEYED])]
    again.consumer.ack()
    assert world.broker.stats()[b"t"].size_bytes == 0


async def test_attributes_are_there_after_a_restart(world):
    await world.broker.publish(b"t", [b"a", b"b"], [KEYED, TRACED]).commit.wait()
    await world.restart()
    assert world.broker.stats()[b"t"].size_bytes == 2 + len(KEYED) + len(TRACED)
    assert delivered(await world.holding(b"t")) == [(b"a", [KEYED])]
    assert_sound(world.store)


async def test_a_chunk_of_plain_messages_costs_nothing_more(world):
    await world.publish(b"t", b"a", b"b")
    await world.broker.publish(b"u", [b"a", b"b"], [b"", b""]).commit.wait()
    values = [value for key, value in world.store.pairs().items() if key[0] == 0x20]
    assert [len(value) for value in values] == [26 + 2 * 4 + 2] * 2


@world_with(limits=BrokerLimits(max_topic_bytes=100))
async def test_attributes_count_in_the_bytes_that_a_topic_may_hold(world):
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"a"], [bytes(100)])
    await world.broker.publish(b"t", [b"a"], [KEYED]).commit.wait()
