"""Topics that are full: what waits longest becomes dead letters where the policy says so, and nothing is lost."""

import asyncio

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.publish import overflow
from miniqueue.core.message import attributes
from miniqueue.core.settings.fields import LimitPolicy, Side
from miniqueue.errors import OutcomeUnknownError, TopicFullError
from miniqueue.errors.requests import InvalidSettingError
from tests.broker.dead_letters.test_dead_letters import assert_sound
from tests.broker.support import started_world, world_with
from tests.fakes import settle_down

DEAD = b"t.dlq"
THREE = BrokerLimits(max_topic_messages=3)
THREE_TO_DEAD_LETTERS = BrokerLimits(max_topic_messages=3, policy=LimitPolicy.DEAD_LETTER)


async def choose(world, policy: str | None, **more: object) -> None:
    """Make topic t with this policy."""
    await world.broker.admin.create(b"t", {"limit_policy": policy, **more}).wait()


@world_with(limits=THREE)
async def test_a_topic_has_a_policy_of_its_own(world):
    await choose(world, "drop-oldest")
    await world.publish_each(b"t", b"a", b"b", b"c", b"d")
    assert await world.drain(b"t") == [b"b", b"c", b"d"]
    await world.publish(b"u", b"a", b"b", b"c")
    with pytest.raises(TopicFullError):
        world.broker.publish(b"u", [b"d"])


@world_with(limits=BrokerLimits(max_topic_messages=3, policy=LimitPolicy.DROP_OLDEST))
async def test_a_topic_can_refuse_where_others_drop(world):
    await choose(world, "refuse")
    await world.publish(b"t", b"a", b"b", b"c")
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"d"])


@world_with(limits=THREE)
async def test_what_waits_longest_becomes_dead_letters_with_the_reason_and_their_origin(world):
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


@world_with(limits=THREE)
async def test_they_can_go_back_when_there_is_room(world):
    await choose(world, "dead-letter")
    await world.publish_each(b"t", b"a", b"b", b"c", b"d")
    assert await world.drain(b"t") == [b"b", b"c", b"d"]
    assert await world.broker.redrive(DEAD) == 1
    assert await world.drain(b"t") == [b"a"]


@world_with(limits=THREE)
async def test_a_message_and_the_one_that_gives_way_to_it_are_of_one_commit(world):
    await choose(world, "dead-letter")
    await world.publish(b"t", b"a", b"b", b"c")
    world.store.fail_writes, world.store.applies_failed = {world.store.write_count + 1}, True
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"d")
    await settle_down()
    assert await world.drain(b"t") == [b"b", b"c", b"d"]
    assert await world.drain(DEAD) == [b"a"]


@world_with(limits=THREE_TO_DEAD_LETTERS)
async def test_what_comes_is_refused_when_there_is_no_room_for_dead_letters_either(world):
    await world.publish_each(b"t", *[b"%d" % number for number in range(6)])
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"6"])
    await world.restart()
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"6"])
    assert await world.drain(DEAD) == [b"0", b"1", b"2"]
    await world.publish(b"t", b"6")
    assert await world.drain(b"t") == [b"4", b"5", b"6"]


@world_with(limits=THREE_TO_DEAD_LETTERS)
async def test_a_first_publish_that_is_refused_makes_no_topic_for_dead_letters(world):
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"0", b"1", b"2", b"3"])
    assert world.broker.topics() == []


@world_with(limits=THREE_TO_DEAD_LETTERS)
async def test_dead_letters_enter_a_topic_that_drops_what_is_oldest(world):
    await world.broker.admin.create(DEAD, {"limit_policy": "drop-oldest"}).wait()
    await world.publish_each(b"t", *[b"%d" % number for number in range(8)])
    await world.commit()
    assert await world.drain(DEAD) == [b"2", b"3", b"4"]


@world_with(limits=BrokerLimits(max_topic_messages=6, max_topic_bytes=30, policy=LimitPolicy.DEAD_LETTER))
async def test_all_that_gives_way_to_what_was_let_in_goes_though_the_bytes_of_dead_letters_are_used_up(world):
    for sizes in ([4, 5, 6], [3, 3, 3], [3, 3, 3, 3]):  # the last four have four give way, in two chunks
        await world.publish(b"t", *[bytes(size) for size in sizes])
    await world.commit()
    assert [len(payload) for payload in await world.drain(DEAD)] == [4, 5, 6, 3]
    assert await world.drain(b"t") == [bytes(3)] * 6


@world_with(limits=THREE)
async def test_what_is_leased_does_not_give_way(world):
    await choose(world, "dead-letter")
    await world.publish(b"t", b"a", b"b", b"c")
    holders = [await world.holding(b"t") for _ in range(3)]
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"d"])
    holders[0].consumer.nack()
    await world.publish(b"t", b"d")
    assert await world.drain(DEAD) == [b"a"]


async def test_many_that_come_at_once_have_as_many_give_way_across_chunks_and_pages(world):
    await choose(world, "dead-letter", max_messages=50)
    for start in range(0, 50, 5):
        await world.publish(b"t", *[b"%02d" % number for number in range(start, start + 5)])
    await world.restart()
    await world.publish(b"t", *[b"%02d" % number for number in range(50, 90)])
    assert await world.drain(DEAD) == [b"%02d" % number for number in range(40)]
    assert await world.drain(b"t") == [b"%02d" % number for number in range(40, 90)]


async def test_many_dead_letters_are_made_in_several_turns_of_the_loop_and_several_commits(monkeypatch):
    monkeypatch.setattr(overflow, "MAX_DEAD_LETTERS_AT_ONCE", 5)
    monkeypatch.setattr(overflow, "MAX_BYTES_IN_TURN", 5 * overflow.WORK_BYTES)
    monkeypatch.setattr(overflow, "MAX_BYTES_PER_COMMIT", 20 * overflow.WORK_BYTES)

    async with started_world() as world:
        await world.publish(b"t", *[b"%02d" % number for number in range(90)])
        await world.broker.admin.change(b"t", {"limit_policy": "dead-letter", "max_messages": 10}).wait()
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


@world_with(limits=THREE)
async def test_dead_letters_enter_a_topic_that_is_paused_on_the_way_in(world):
    await choose(world, "dead-letter")
    await world.publish(DEAD, b"first")
    await world.broker.admin.pause(DEAD, Side.IN).wait()
    await world.publish_each(b"t", b"a", b"b", b"c", b"d")
    consumer = await world.holding(b"t")
    world.broker.admin.change(b"t", {"max_deliveries": 1})
    consumer.consumer.nack()
    assert await world.drain(DEAD) == [b"first", b"a", b"b"]


async def test_a_policy_needs_a_name_for_dead_letters_and_one_that_is_known(world):
    with pytest.raises(InvalidSettingError, match="limit_policy must be refuse, drop-oldest, dead-letter"):
        world.broker.admin.create(b"t", {"limit_policy": "shrug"})
    with pytest.raises(InvalidSettingError, match=r"too long to append \.dlq"):
        world.broker.admin.create(b"x" * 252, {"limit_policy": "dead-letter"})
