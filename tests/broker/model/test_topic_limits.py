"""Limits of topics: how many there may be, and how much each may hold; refused, or made room for by dropping."""

import asyncio

import pytest

from miniqueue.broker.model.limits import BrokerLimits, Limit
from miniqueue.broker.publish import overflow
from miniqueue.core.cursor import cursor as cursors
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import LimitReachedError, TopicFullError
from miniqueue.storage.format import keys, values
from tests.broker.support import started_world, world_with
from tests.fakes import settle_down


def three_messages(**options: object) -> dict[str, object]:
    return {"limits": BrokerLimits(max_topic_messages=3, **options)}


def ten_bytes(**options: object) -> dict[str, object]:
    return {"limits": BrokerLimits(max_topic_bytes=10, **options)}


@world_with(limits=BrokerLimits(max_topics=2))
async def test_one_topic_too_many_is_refused_and_the_others_go_on(world):
    await world.publish(b"a", b"1")
    await world.publish(b"b", b"2")
    with pytest.raises(LimitReachedError, match="as there may be, 2"):
        world.broker.publish(b"c", [b"3"])
    await world.publish(b"a", b"4")
    assert world.broker.topics() == [b"a", b"b"]
    assert world.broker.limit_counts.counts == {Limit.TOPICS: 1}
    assert await world.broker.delete_topic(b"b")
    await world.publish(b"c", b"5")
    await world.restart()
    with pytest.raises(LimitReachedError):
        world.broker.publish(b"d", [b"6"])


@world_with(limits=BrokerLimits(max_topics=1))
async def test_topics_that_are_only_waited_for_do_not_count(world):
    consumer = world.consumer(b"waited-for")
    consumer.consumer.request()
    await world.publish(b"a", b"1")
    with pytest.raises(LimitReachedError):
        world.broker.publish(b"waited-for", [b"2"])


@world_with(limits=BrokerLimits(max_topics=2))
async def test_topics_are_counted_again_after_a_fault(world):
    await world.publish(b"a", b"1")
    world.store.fail_writes = {world.store.write_count + 1}
    world.broker.publish(b"b", [b"2"])
    await settle_down()
    await world.publish(b"b", b"3")
    with pytest.raises(LimitReachedError):
        world.broker.publish(b"c", [b"4"])


async def test_a_publish_to_a_full_topic_is_refused_as_a_whole():
    async with started_world(**three_messages()) as world:
        await world.publish(b"t", b"1", b"2")
        with pytest.raises(TopicFullError, match="-max-topic-messages") as refused:
            world.broker.publish(b"t", [b"3", b"4"])
        assert refused.value.fitting_count == 1
        await world.publish(b"t", b"5")
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"6"])
        assert world.broker.limit_counts.counts == {Limit.TOPIC_MESSAGES: 2}
        assert await world.drain(b"t") == [b"1", b"2", b"5"]
        await world.publish(b"t", b"7", b"8", b"9")


async def test_bytes_are_those_of_the_payloads():
    async with started_world(**ten_bytes()) as world:
        await world.publish(b"t", b"12345", b"678")
        with pytest.raises(TopicFullError, match="-max-topic-bytes") as refused:
            world.broker.publish(b"t", [b"9", b"0", b"x"])
        assert refused.value.fitting_count == 2
        await world.publish(b"t", b"90", b"")
        assert world.broker.stats()[b"t"].size_bytes == 10
        await world.restart()
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"x"])
        assert world.broker.limit_counts.counts == {Limit.TOPIC_BYTES: 1}


async def test_what_is_not_yet_committed_counts_too():
    async with started_world(**three_messages()) as world:
        world.broker.publish(b"t", [b"1", b"2"])
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"3", b"4"])


async def test_a_first_publish_over_the_limit_makes_no_topic():
    async with started_world(**three_messages()) as world:
        with pytest.raises(TopicFullError):
            world.broker.publish(b"t", [b"1", b"2", b"3", b"4"])
        assert world.broker.topics() == []
        assert world.broker.stats() == {}


async def test_what_waits_longest_is_dropped_in_the_same_commit():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish_each(b"t", b"1", b"2", b"3")
        batches = len(world.store.batches)
        await world.publish(b"t", b"4", b"5")
        assert len(world.store.batches) == batches + 1
        assert [world.store.batches[-1].get(keys.chunk(1, 0, seq), "there") for seq in (0, 1, 2)] == [
            None,
            None,
            "there",
        ]
        stats = world.broker.stats()[b"t"]
        assert (stats.published, stats.acknowledged, stats.dropped, stats.ready) == (5, 0, 2, 3)
        await world.restart()
        assert world.broker.stats()[b"t"].dropped == 2
        assert await world.drain(b"t") == [b"3", b"4", b"5"]


async def test_a_part_of_a_chunk_is_dropped():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        await world.publish(b"t", b"4")
        await world.restart()
        await world.publish(b"t", b"5")
        assert await world.drain(b"t") == [b"3", b"4", b"5"]


async def test_as_many_go_as_the_bytes_need():
    async with started_world(**ten_bytes(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"123", b"", b"4567", b"890")
        await world.publish(b"t", b"abcd")
        assert await world.drain(b"t") == [b"890", b"abcd"]


async def test_what_somebody_holds_is_never_dropped():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        holder = await world.holding(b"t")
        await world.publish(b"t", b"4", b"5")
        assert holder.payloads == [b"1"]
        with pytest.raises(TopicFullError) as refused:
            world.broker.publish(b"t", [b"6", b"7", b"8"])
        assert refused.value.fitting_count == 2
        holder.consumer.nack()
        assert await world.drain(b"t") == [b"1", b"4", b"5"]


async def test_what_came_back_goes_when_nothing_else_waits():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        holders = [await world.holding(b"t") for _ in range(3)]
        holders[0].consumer.nack()
        holders[1].consumer.dack(60)
        holders[2].consumer.back()
        await world.publish(b"t", b"4")  # instead of the one at the back
        await world.publish(b"t", b"5")  # instead of the one that waits in the log
        await world.publish(b"t", b"6", b"7")  # instead of the one at the front, too
        stats = world.broker.stats()[b"t"]
        assert (stats.delayed, stats.dropped) == (1, 4)
        await world.publish(b"t", b"8", b"9", b"0")
        assert world.broker.stats()[b"t"].delayed == 0
        await world.restart()
        assert await world.drain(b"t") == [b"8", b"9", b"0"]


async def test_what_is_not_in_memory_is_loaded_to_be_dropped(monkeypatch):
    monkeypatch.setattr(cursors, "LOG_WINDOW_BYTES", 150)

    async with started_world(limits=BrokerLimits(max_topic_messages=8, policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish_each(b"t", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8")
        await world.restart()
        await world.publish(b"t", b"a", b"b", b"c", b"d", b"e", b"f")
        assert world.broker.stats()[b"t"].ready == 8
        assert await world.drain(b"t") == [b"7", b"8", b"a", b"b", b"c", b"d", b"e", b"f"]


async def test_a_limit_that_was_lowered_is_reached_over_several_commits(monkeypatch):
    monkeypatch.setattr(overflow, "MAX_BYTES_PER_COMMIT", 4)

    async with started_world() as world:
        await world.publish_each(b"t", *[b"%d" % n for n in range(10)])
        world.options["limits"] = BrokerLimits(max_topic_messages=3, policy=LimitPolicy.DROP_OLDEST)
        await world.restart()
        batches = len(world.store.batches)
        await world.publish(b"t", b"x")
        assert world.broker.stats()[b"t"].ready > 3
        await settle_down()
        assert world.broker.stats()[b"t"].ready == 3
        assert len(world.store.batches) > batches + 1
        assert await world.drain(b"t") == [b"8", b"9", b"x"]


async def test_a_topic_that_cannot_be_read_is_not_trimmed_and_takes_messages():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        await world.restart()
        world.store.fail_scans = {world.store.scan_count + 1}
        await world.publish(b"t", b"4")
        assert world.broker.stats()[b"t"].ready == 4
        await world.publish(b"t", b"5")
        assert await world.drain(b"t") == [b"3", b"4", b"5"]


async def test_a_topic_may_be_deleted_while_it_is_trimmed():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        await world.restart()
        world.store.may_scan.clear()
        world.broker.publish(b"t", [b"4"])
        await settle_down()
        removal = world.broker.delete_topic(b"t")
        again = world.broker.publish(b"t", [b"5"])
        world.store.may_scan.set()
        assert await removal
        await again.commit.wait()
        assert await world.drain(b"t") == [b"5"]


async def test_a_crash_in_the_commit_that_drops_leaves_all_or_nothing():
    async with started_world(**three_messages(policy=LimitPolicy.DROP_OLDEST)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        count = len(world.store.batches)
        await world.publish(b"t", b"4", b"5")
        for batches, expected in ((count, [b"1", b"2", b"3"]), (count + 1, [b"3", b"4", b"5"])):
            whole, world.store = world.store, await world.store.as_of(batches)
            await world.start()
            assert await world.drain(b"t") == expected
            world.store = whole


async def test_bytes_of_a_store_of_the_first_version_are_counted(world):
    """It has cursors, heads and chunks that do not tell."""
    await world.publish(b"t", b"12", b"3456", b"7")
    holder = await world.holding(b"t")
    other = await world.holding(b"t")
    other.consumer.nack()
    await world.commit()
    holder.consumer.ack()
    await world.commit()
    await world.store.write(as_first_version(world.store.pairs()))
    await world.restart()
    assert world.broker.stats()[b"t"].size_bytes == 5
    await world.publish(b"t", b"xx")
    await world.restart()
    assert world.broker.stats()[b"t"].size_bytes == 7
    assert await world.drain(b"t") == [b"3456", b"7", b"xx"]
    await world.restart()
    assert world.broker.stats()[b"t"].size_bytes == 0


def as_first_version(pairs: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return what the first version would have written in place of newer values."""
    old = {}
    for key, value in pairs.items():
        match keys.parse(key).space:
            case keys.Space.CURSOR:
                old[key] = values.seal(value[1:33])
            case keys.Space.HEAD:
                old[key] = values.seal(value[1:9])
            case keys.Space.CHUNK:
                old[key] = values.seal(value[1:14], value[22:-4])
    return old


@pytest.mark.parametrize("policy", [LimitPolicy.DROP_OLDEST, LimitPolicy.DEAD_LETTER])
async def test_a_topic_may_be_deleted_before_it_is_trimmed(policy):
    async with started_world(**three_messages(policy=policy)) as world:
        await world.publish(b"t", b"1", b"2", b"3")
        world.broker.publish(b"t", [b"4"])
        assert await world.broker.delete_topic(b"t")
        await world.publish(b"u", b"a")
        assert await world.drain(b"u") == [b"a"]


async def test_a_topic_that_is_to_refuse_meanwhile_is_trimmed_no_further(monkeypatch):
    monkeypatch.setattr(overflow, "MAX_BYTES_IN_TURN", 1)

    async with started_world() as world:
        change = world.broker.admin.change
        await world.publish_each(b"t", *[b"%d" % number for number in range(9)])
        await change(b"t", {"limit_policy": "drop-oldest", "max_messages": 2}).wait()
        world.broker.publish(b"t", [b"9"])
        for _ in range(100):
            await asyncio.sleep(0)
            if dropped := world.broker.stats()[b"t"].dropped:
                break
        change(b"t", {"limit_policy": "refuse"})
        await settle_down()
        assert world.broker.stats()[b"t"].dropped == dropped < 8
        assert len(await world.drain(b"t")) == 10 - dropped


@pytest.mark.parametrize("partitions", [1, 20])
async def test_what_came_while_there_was_no_limit_counts_when_there_is_one_again(partitions, world):
    change = world.broker.admin.change
    await world.broker.admin.create(b"t", {"partitions": partitions, "max_messages": 3}).wait()
    await world.publish(b"t", b"1")
    await change(b"t", {"max_messages": None}).wait()
    await world.publish(b"t", b"2", b"3")
    await change(b"t", {"max_messages": 3}).wait()
    with pytest.raises(TopicFullError):
        world.broker.publish(b"t", [b"4"])
