"""Topics that are full: what waits longest becomes dead letters where the policy says so, and nothing is lost."""

import asyncio

import pytest

from miniqueue.broker import trimming
from miniqueue.broker.limits import BrokerLimits
from miniqueue.core import attributes
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.core.pause import Side
from miniqueue.core.topic_errors import InvalidSettingError
from miniqueue.errors import OutcomeUnknownError, TopicFullError
from tests.broker.support import run
from tests.broker.test_dead_letters import assert_sound
from tests.fakes import settle_down

DEAD = b"t.dlq"
THREE = BrokerLimits(max_topic_messages=3)
THREE_TO_DEAD_LETTERS = BrokerLimits(max_topic_messages=3, policy=LimitPolicy.DEAD_LETTER)


async def choose(world, policy: str | None, **more: object) -> None:
    """Make topic t with this policy."""
    await world.broker.configurator.create(b"t", {"limit_policy": policy, **more}).wait()


def test_a_topic_has_a_policy_of_its_own():
    async def body(world):
        await choose(world, "drop-oldest")
        await world.publish_each(b"t", b"a", b"b", b"c", b"d")
        assert await world.drain(b"t") == [b"b", b"c", b"d"]
        await world.publish(b"u", b"a", b"b", b"c")
        with pytest.raises(TopicFullError):
            world.broker.publish(b"u", [b"d"])

    run(body, limits=THREE)


def test_a_topic_can_refuse_where_others_drop():
    async def body(world):
        await choose(world, "refuse")
        await world.publish(b"t", b"a", b"b", b"c")
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"d"])

    run(body, limits=BrokerLimits(max_topic_messages=3, policy=LimitPolicy.DROP_OLDEST))


def test_what_waits_longest_becomes_dead_letters_with_the_reason_and_their_origin():
    async def body(world):
        await choose(world, "dead-letter")
        await world.publish_each(b"t", b"a", b"b", b"c", b"d", b"e")
        held = await world.holding(DEAD)
        origin = attributes.decode(held.leases[0].attributes[0]).origin
        assert (held.payloads, origin.topic, origin.seq, origin.reason) == ([b"a"], b"t", 0, b"limit")
        held.consumer.ack()
        assert await world.drain(DEAD) == [b"b"]
        assert await world.drain(b"t") == [b"c", b"d", b"e"]
        stats = world.broker.stats()[b"t"]
        assert (stats.dropped, stats.moved) == (0, 2)
        assert_sound(world.store)

    run(body, limits=THREE)


def test_they_can_go_back_when_there_is_room():
    async def body(world):
        await choose(world, "dead-letter")
        await world.publish_each(b"t", b"a", b"b", b"c", b"d")
        assert await world.drain(b"t") == [b"b", b"c", b"d"]
        assert await world.broker.redriver.redrive(DEAD) == 1
        assert await world.drain(b"t") == [b"a"]

    run(body, limits=THREE)


def test_a_message_and_the_one_that_gives_way_to_it_are_of_one_commit():
    async def body(world):
        await choose(world, "dead-letter")
        await world.publish(b"t", b"a", b"b", b"c")
        world.store.fail_writes, world.store.applies_failed = {world.store.write_count + 1}, True
        with pytest.raises(OutcomeUnknownError):
            await world.publish(b"t", b"d")
        await settle_down()
        assert await world.drain(b"t") == [b"b", b"c", b"d"]
        assert await world.drain(DEAD) == [b"a"]

    run(body, limits=THREE)


def test_what_comes_is_refused_when_there_is_no_room_for_dead_letters_either():
    async def body(world):
        await world.publish_each(b"t", *[b"%d" % number for number in range(6)])
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"6"])
        await world.restart()
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"6"])
        assert await world.drain(DEAD) == [b"0", b"1", b"2"]
        await world.publish(b"t", b"6")
        assert await world.drain(b"t") == [b"4", b"5", b"6"]

    run(body, limits=THREE_TO_DEAD_LETTERS)


def test_dead_letters_enter_a_topic_that_drops_what_is_oldest():
    async def body(world):
        await world.broker.configurator.create(DEAD, {"limit_policy": "drop-oldest"}).wait()
        await world.publish_each(b"t", *[b"%d" % number for number in range(8)])
        await world.commit()
        assert await world.drain(DEAD) == [b"2", b"3", b"4"]

    run(body, limits=THREE_TO_DEAD_LETTERS)


def test_all_that_gives_way_to_what_was_let_in_goes_though_the_bytes_of_dead_letters_are_used_up():
    async def body(world):
        for sizes in ([4, 5, 6], [3, 3, 3], [3, 3, 3, 3]):  # the last four have four give way, in two chunks
            await world.publish(b"t", *[bytes(size) for size in sizes])
        await world.commit()
        assert [len(payload) for payload in await world.drain(DEAD)] == [4, 5, 6, 3]
        assert await world.drain(b"t") == [bytes(3)] * 6

    run(body, limits=BrokerLimits(max_topic_messages=6, max_topic_bytes=30, policy=LimitPolicy.DEAD_LETTER))


def test_what_is_leased_does_not_give_way():
    async def body(world):
        await choose(world, "dead-letter")
        await world.publish(b"t", b"a", b"b", b"c")
        holders = [await world.holding(b"t") for _ in range(3)]
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"d"])
        holders[0].consumer.nack()
        await world.publish(b"t", b"d")
        assert await world.drain(DEAD) == [b"a"]

    run(body, limits=THREE)


def test_many_that_come_at_once_have_as_many_give_way_across_chunks_and_pages():
    async def body(world):
        await choose(world, "dead-letter", max_messages=50)
        for start in range(0, 50, 5):
            await world.publish(b"t", *[b"%02d" % number for number in range(start, start + 5)])
        await world.restart()
        await world.publish(b"t", *[b"%02d" % number for number in range(50, 90)])
        assert await world.drain(DEAD) == [b"%02d" % number for number in range(40)]
        assert await world.drain(b"t") == [b"%02d" % number for number in range(40, 90)]

    run(body)


def test_many_dead_letters_are_made_in_several_turns_of_the_loop_and_several_commits(monkeypatch):
    monkeypatch.setattr(trimming, "MAX_BURIED_AT_ONCE", 5)
    monkeypatch.setattr(trimming, "MAX_BYTES_IN_TURN", 5 * trimming.WORK_BYTES)
    monkeypatch.setattr(trimming, "MAX_BYTES_PER_COMMIT", 20 * trimming.WORK_BYTES)

    async def body(world):
        await world.publish(b"t", *[b"%02d" % number for number in range(90)])
        await world.broker.configurator.change(b"t", {"limit_policy": "dead-letter", "max_messages": 10}).wait()
        batch_count = len(world.store.batches)
        world.broker.publish(b"t", [b"90"])
        moved, steps = 0, []
        for _ in range(400):
            await asyncio.sleep(0)
            steps.append(world.broker.stats()[b"t"].moved - moved)
            moved += steps[-1]
        assert max(steps) == 5
        assert len(world.store.batches) - batch_count >= 81 // 25
        assert await world.drain(DEAD) == [b"%02d" % number for number in range(81)]
        assert await world.drain(b"t") == [b"%02d" % number for number in range(81, 91)]

    run(body)


def test_dead_letters_enter_a_topic_that_is_paused_on_the_way_in():
    async def body(world):
        await choose(world, "dead-letter")
        await world.publish(DEAD, b"first")
        await world.broker.pauser.pause(DEAD, Side.IN).wait()
        await world.publish_each(b"t", b"a", b"b", b"c", b"d")
        consumer = await world.holding(b"t")
        world.broker.configurator.change(b"t", {"max_deliveries": 1})
        consumer.consumer.nack()
        assert await world.drain(DEAD) == [b"first", b"a", b"b"]

    run(body, limits=THREE)


def test_a_policy_needs_a_name_for_dead_letters_and_one_that_is_known():
    async def body(world):
        with pytest.raises(InvalidSettingError, match="limit_policy must be refuse, drop-oldest, dead-letter"):
            world.broker.configurator.create(b"t", {"limit_policy": "shrug"})
        with pytest.raises(InvalidSettingError, match=r"too long for \.dlq"):
            world.broker.configurator.create(b"x" * 252, {"limit_policy": "dead-letter"})

    run(body)
