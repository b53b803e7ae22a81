"""Topics that are paused: what stops and what goes on, for how long, and across restarts."""

import pytest

from miniqueue.core.message.attributes import Attributes
from miniqueue.core.settings.fields import FOREVER_MS, Side
from miniqueue.errors import InvalidDelayError
from miniqueue.errors.requests import PausedError, UnknownTopicError
from tests.fakes import settle_down


async def test_in_paused_refuses_publishes_and_hands_out(world):
    await world.publish(b"t", b"a")
    await world.broker.admin.pause(b"t", Side.IN).wait()
    with pytest.raises(PausedError):
        await world.publish(b"t", b"b")
    await world.publish(b"other", b"x")
    assert await world.drain(b"t") == [b"a"]
    await world.broker.admin.resume(b"t").wait()
    await world.publish(b"t", b"c")
    assert await world.drain(b"t") == [b"c"]


async def test_a_pause_while_messages_are_loaded_is_no_fault(world):
    """Messages that were loaded meanwhile are not delivered, and must not be loaded again."""
    await world.publish(b"t", b"a")
    await world.restart()
    world.store.may_scan.clear()
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    await settle_down()
    world.broker.admin.pause(b"t", Side.OUT)
    world.store.may_scan.set()
    await settle_down()
    assert not world.broker.failed.done()
    world.broker.admin.resume(b"t", Side.OUT)
    await settle_down()
    assert waiting.payloads == [b"a"]


async def test_out_paused_hands_nothing_out_and_takes_and_settles(world):
    await world.publish(b"t", b"a", b"b")
    holder = await world.holding(b"t")
    await world.broker.admin.pause(b"t", Side.OUT).wait()
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    await world.publish(b"t", b"c")
    holder.consumer.nack()
    holder.consumer.request()
    world.broker.tick()
    await settle_down()
    assert waiting.payloads == []
    assert len(holder.leases) == 1
    world.broker.admin.resume(b"t", Side.OUT)
    await settle_down()
    assert (waiting.payloads, holder.payloads[1:]) == ([b"a"], [b"b"])


async def test_sides_are_paused_each_for_itself(world):
    await world.publish(b"t", b"a")
    topic = world.broker._engine.topics.by_name[b"t"]
    seen = []
    for act, side in (("pause", "IN"), ("pause", "OUT"), ("resume", "IN"), ("pause", "BOTH"), ("resume", "BOTH")):
        await getattr(world.broker.admin, act)(b"t", Side[side]).wait()
        seen.append((topic.is_paused_in, topic.is_paused_out))
    assert seen == [(True, False), (True, True), (False, True), (True, True), (False, False)]
    figures = await world.broker.inspect.stats(b"t")
    assert (figures["paused_in"], figures["paused_out"]) == (False, False)


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_pause_with_a_time_ends_by_itself_on_a_tick(is_restarted, world):
    await world.publish(b"t", b"a")
    await world.broker.admin.pause(b"t", seconds=10).wait()
    if is_restarted:
        await world.restart()
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    world.clock.advance(9.999)
    world.broker.tick()
    await settle_down()
    assert waiting.payloads == []
    world.clock.advance(0.001)
    world.broker.tick()
    await settle_down()
    assert waiting.payloads == [b"a"]
    await world.publish(b"t", b"b")


async def test_a_pause_without_a_time_outlives_restarts_until_it_is_ended(world):
    await world.publish(b"t", b"a")
    await world.broker.admin.pause(b"t").wait()
    await world.restart()
    world.clock.advance(1e9)
    world.broker.tick()
    with pytest.raises(PausedError):
        await world.publish(b"t", b"b")
    await world.broker.admin.resume(b"t").wait()
    await world.restart()
    await world.publish(b"t", b"b")
    assert await world.drain(b"t") == [b"a", b"b"]
    assert world.broker.admin.settings_of(b"t").members() == {}


async def test_a_pause_is_durable_when_its_commit_is(world):
    await world.publish(b"t", b"a")
    await world.broker.admin.pause(b"t", Side.IN).wait()
    world.store = await world.store.as_of(len(world.store.batches))
    await world.start()
    with pytest.raises(PausedError):
        await world.publish(b"t", b"b")


async def test_a_deleted_topic_takes_its_pause_along(world):
    await world.publish(b"t", b"a")
    await world.broker.admin.pause(b"t", seconds=5).wait()
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"b")
    world.broker.tick()
    assert await world.drain(b"t") == [b"b"]
    assert world.broker.admin._paused == {}


async def test_what_cannot_be_paused(world):
    with pytest.raises(UnknownTopicError):
        world.broker.admin.pause(b"t")
    await world.publish(b"t", b"a")
    for seconds in (-1, float("nan"), FOREVER_MS):
        with pytest.raises(InvalidDelayError):
            world.broker.admin.pause(b"t", seconds=seconds)
    await world.publish(b"t", b"b")


@pytest.mark.parametrize("cap", [{"max_concurrency": 1}, {"max_rate": 1}, {"ordered": True, "key_max_concurrency": 1}])
async def test_a_cap_that_is_set_with_the_end_of_a_pause_holds_from_the_first_message_on(cap, world):
    given = Attributes(key=b"k").encode()
    await world.broker.publish(b"t", [b"a", b"b", b"c", b"d", b"e"], [given] * 5).commit.wait()
    await world.broker.admin.pause(b"t", Side.OUT).wait()
    leases = []
    world.broker.consumer(b"t", leases.extend, leases.append, prefetch=5).request()
    await world.broker.admin.change(b"t", {"paused_out_until_ms": 0, **cap}).wait()
    await settle_down()
    assert sum(lease.count for lease in leases) == 1
