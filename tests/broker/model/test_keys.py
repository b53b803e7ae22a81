"""Topics whose messages have keys: order, turns and caps, through the whole broker."""

import asyncio
import random
from collections.abc import Callable

import pytest

from miniqueue.broker.model.topic import Group as ReadingGroup
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.keyed import log_index, returns_index
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors import NothingOutstandingError
from tests.broker.support import World, started_world
from tests.fakes import FakeConsumer, settle_down

ORDERED = {"ordered": True}


async def publish(world: World, *messages: str, **options: object) -> None:
    """Publish `key + anything`, each under its key, a letter."""
    accepted = [
        world.broker.publish_with(b"t", text.encode(), PublishOptions(key=text[:1].encode(), **options))
        for text in messages
    ]
    await accepted[-1].commit.wait()


async def topic(world: World, **settings: object) -> None:
    await world.broker.admin.create(b"t", settings).wait()


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what the loop's own time brings."""
    for _ in range(3000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it was never so")


class Group:
    """Consumers of the topic, each of which holds one message at a time."""

    def __init__(self, world: World, count: int, group: ReadingGroup | None = None) -> None:
        self.consumers = [FakeConsumer(world.broker, b"t") for _ in range(count)]
        for consumer in self.consumers:
            if group is not None:
                consumer.consumer.group = group
            consumer.consumer.request()

    @property
    def held(self) -> dict[str, FakeConsumer]:
        """Who holds what."""
        return {
            one.leases[-1].payloads[0].decode(): one
            for one in self.consumers
            if one.leases and not one.consumer.is_waiting and one.consumer._holding.count
        }

    async def settle(self, text: str, act: str = "ack", *arguments: object) -> None:
        consumer = self.held[text].consumer
        getattr(consumer, act)(*arguments)
        await settle_down()
        if not consumer.is_waiting:
            consumer.request()
        await settle_down()


# --- order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [("nack",), ("back",), ("dack", 0.0)])
async def test_a_key_is_handed_out_one_at_a_time_whatever_comes_back(act, world):
    await topic(world, **ORDERED)
    group = Group(world, 3)
    await publish(world, "a1", "a2", "b1", "b2")
    await settle_down()
    assert set(group.held) == {"a1", "b1"}
    await group.settle("a1", *act)
    world.clock.advance(1)
    world.broker.tick()
    await settle_down()
    assert set(group.held) == {"a1", "b1"}
    await group.settle("a1")
    assert set(group.held) == {"a2", "b1"}


async def test_a_consumer_that_leaves_gives_its_key_back(world):
    await topic(world, **ORDERED)
    group = Group(world, 2)
    await publish(world, "a1", "a2")
    await settle_down()
    group.held["a1"].consumer.close()
    await settle_down()
    assert set(group.held) == {"a1"}


async def test_a_message_that_waits_for_its_time_blocks_its_key_over_a_restart(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2", "b1")
    group = Group(world, 1)
    await settle_down()
    await group.settle("a1", "dack", 10.0)
    await world.commit()
    await world.restart()
    group = Group(world, 3)
    await settle_down()
    assert set(group.held) == {"b1"}
    world.clock.advance(11)
    world.broker.tick()
    await settle_down()
    assert set(group.held) == {"a1", "b1"}


async def test_large_messages_that_came_back_are_read_when_their_turn_comes(monkeypatch):
    monkeypatch.setattr(returns_index, "MAX_RETURNED_BYTES", 1000)

    async with started_world() as world:
        await topic(world, **ORDERED)
        await publish(world, *(f"{key}{n}" + "x" * 500 for n in range(2) for key in "abcdef"))
        group = Group(world, 6)
        await settle_down()
        for text in sorted(group.held):
            await group.settle(text, "dack", 5.0)
        await world.restart()
        world.clock.advance(10)
        world.broker.tick()
        came = [payload[:2].decode() for payload in await world.drain(b"t")]
        assert sorted(came) == [f"{key}{n}" for key in "abcdef" for n in range(2)]
        assert all(came.index(f"{key}0") < came.index(f"{key}1") for key in "abcdef")


async def test_order_holds_over_a_crash(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2", "a3", "b1")
    group = Group(world, 2)
    await settle_down()
    await group.settle("a1")
    await group.settle("a2", "nack")
    await world.commit()
    world.store = await world.store.as_of(len(world.store.batches))
    await world.start()
    assert sorted(await world.drain(b"t")) == [b"a2", b"a3", b"b1"]


async def test_a_dead_letter_is_not_in_the_way(world):
    await topic(world, ordered=True, max_deliveries=1)
    await publish(world, "a1", "a2")
    group = Group(world, 1)
    await settle_down()
    await group.settle("a1", "nack")
    assert set(group.held) == {"a2"}
    assert world.broker.topics() == [b"t", b"t.dlq"]


async def test_each_priority_has_an_order_of_its_own(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2")
    await publish(world, "a3", "a4", priority=Priority.HIGH)
    group = Group(world, 4)
    await settle_down()
    assert set(group.held) == {"a1", "a3"}


async def test_what_expires_makes_way(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", ttl_seconds=1)
    await publish(world, "a2")
    world.clock.advance(2)
    group = Group(world, 1)
    await settle_down()
    assert set(group.held) == {"a2"}


# --- turns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [ORDERED, {"fair": True}], ids=["ordered", "fair"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_key_with_many_messages_delays_no_other(settings, restarts, world):
    await topic(world, **settings)
    for start in range(0, 20_000, 5000):
        await publish(world, *(f"a{n}" for n in range(start, start + 5000)))
    await publish(world, "b", "c")
    if restarts:
        await world.restart()
    consumer = FakeConsumer(world.broker, b"t")
    for _ in range(3):
        consumer.consumer.request()
        await settle_down()
        consumer.consumer.ack()
    assert consumer.payloads == [b"a0", b"b", b"c"]


async def test_what_is_published_while_many_wait_comes_next(world):
    await topic(world, fair=True)
    await publish(world, *(f"a{n}" for n in range(1000)))
    consumer = await world.holding(b"t")
    await publish(world, "b1")
    consumer.consumer.ack()
    consumer.consumer.request()
    consumer.consumer.ack()
    consumer.consumer.request()
    assert b"b1" in consumer.payloads


# --- caps -------------------------------------------------------------------------------------------------------


async def test_no_more_is_leased_than_may_be(world):
    await topic(world, max_concurrency=2)
    await world.publish(b"t", b"1", b"2", b"3")
    group = Group(world, 3)
    await settle_down()
    assert set(group.held) == {"1", "2"}
    await group.settle("1")
    assert set(group.held) == {"2", "3"}


async def test_a_key_has_no_more_leases_than_it_may(world):
    await topic(world, key_max_concurrency=2)
    await publish(world, "a1", "a2", "a3", "b1")
    group = Group(world, 4)
    await settle_down()
    assert set(group.held) == {"a1", "b1", "a2"}
    await group.settle("a2")
    assert set(group.held) == {"a1", "b1", "a3"}


@pytest.mark.parametrize("setting", ["max_rate", "key_max_rate"])
async def test_no_more_is_handed_out_in_a_second_than_may_be(setting, world):
    await topic(world, **{setting: 2})
    await publish(world, "a1", "a2", "a3")
    group = Group(world, 3)
    for count in (1, 2, 3):
        await settle_down()
        assert len(group.held) == count
        world.clock.advance(0.5)
        world.broker.tick()


@pytest.mark.parametrize("way", ["as it is read", "without consumers", "purged"])
async def test_what_nobody_gets_takes_no_time_of_its_key(way, world):
    await topic(world, key_max_rate=1)
    await publish(world, *["a1"] * 30, ttl_seconds=1)
    world.clock.advance(2)
    if way == "purged":
        assert await world.broker.purge(b"t") == 30
    await publish(world, "a2")
    for _ in range(3 if way == "without consumers" else 0):
        world.broker.tick()
        await settle_down()
    group = Group(world, 1)
    await settle_down()
    assert set(group.held) == {"a2"}


async def test_a_timer_brings_what_its_time_allows(world):
    await topic(world, max_rate=20)
    await world.publish(b"t", b"1", b"2", b"3", b"4", b"5")
    group = Group(world, 5)
    await settle_down()
    assert set(group.held) == {"1", "2"}
    world.clock.advance(1)
    await until(lambda: len(group.held) == 4)


async def test_no_timer_runs_while_only_a_settle_gives_room(world):
    await topic(world, max_concurrency=1, key_max_rate=1)
    await publish(world, "a1", "a2", "b1")
    group = Group(world, 2)
    await settle_down()
    await group.settle("a1")
    assert set(group.held) == {"b1"}
    flow = world.broker._engine.topics.by_name[b"t"].default.flow
    flow._timer.cancel()
    flow._timer = None
    world.clock.advance(5)  # a2 could be delivered, except that b1 is leased
    world.broker.tick()
    await settle_down()
    assert flow._timer is None
    await group.settle("b1")
    assert set(group.held) == {"a2"}


async def test_caps_hold_for_everybody_together_and_leave_the_rest_waiting(world):
    await topic(world, max_concurrency=3, fair=True)
    await publish(world, *(f"{key}{n}" for n in range(3) for key in "ab"))
    group = Group(world, 6)
    await settle_down()
    assert len(group.held) == 3
    assert world.broker.stats()[b"t"].leased == 3


# --- changing -----------------------------------------------------------------------------------------------------


async def test_leases_stay_when_a_topic_becomes_ordered_and_block_their_keys(world):
    await publish(world, "a1", "a2", "a3", "b1")
    group = Group(world, 2)
    await settle_down()
    assert set(group.held) == {"a1", "a2"}
    await world.broker.admin.change(b"t", ORDERED).wait()
    await group.settle("a2")
    assert set(group.held) == {"a1", "b1"}
    await group.settle("a1")
    assert set(group.held) == {"b1", "a3"}


async def test_everything_comes_when_a_topic_is_ordered_no_more(world):
    await topic(world, **ORDERED)
    await publish(world, *(f"{key}{n}" for n in range(5) for key in "abc"))
    group = Group(world, 2)
    await settle_down()
    await group.settle("a0", "dack", 5.0)
    held = set(group.held)
    await world.broker.admin.change(b"t", {"ordered": None}).wait()
    world.clock.advance(10)
    world.broker.tick()
    rest = {payload.decode() for payload in await world.drain(b"t")}
    assert len(rest | held) == 15


async def test_a_group_that_begins_anew_keeps_the_order(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2", "b1")
    topic_ = world.broker._engine.topics.by_name[b"t"]
    cursors = {0: GroupCursor(topic_.cursors[0].state, 3, {}, group=7)}
    topic_.set_cursors(topic_.group(b"other"), 7, cursors)
    group = Group(world, 3, topic_.group(b"other"))
    await settle_down()
    assert set(group.held) == {"a1", "b1"}


# --- looking and removing -------------------------------------------------------------------------------------------


async def test_a_look_and_a_purge_find_what_waits(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2", "b1", "b2")
    group = Group(world, 1)
    await settle_down()
    assert set(group.held) == {"a1"}
    seen = await world.broker.inspect.peek(b"t")
    assert [one.stored.payload for one in seen] == [b"a2", b"b1", b"b2"]
    assert await world.broker.purge(b"t") == 3
    assert world.broker.stats()[b"t"].ready == 0
    await group.settle("a1")
    await publish(world, "a3")
    await settle_down()
    assert set(group.held) == {"a3"}


async def test_a_topic_that_is_full_drops_what_is_oldest(world):
    await topic(world, ordered=True, max_messages=3, limit_policy="drop-oldest")
    await publish(world, "a1", "a2", "b1")
    group = Group(world, 1)
    await settle_down()
    await publish(world, "b2")
    assert world.broker.stats()[b"t"].dropped == 1
    group.consumers[0].consumer.ack()
    assert await world.drain(b"t") == [b"b1", b"b2"]


async def test_a_deleted_topic_has_no_order_left(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2")
    group = Group(world, 1)
    await settle_down()
    holder = group.held["a1"].consumer
    await world.broker.delete_topic(b"t")
    with pytest.raises(NothingOutstandingError):
        holder.ack()
    await publish(world, "a3", "a4")
    assert await world.drain(b"t") == [b"a3", b"a4"]


async def test_a_fault_of_the_store_leaves_what_was_committed(world):
    await topic(world, **ORDERED)
    await publish(world, "a1", "a2", "b1")
    group = Group(world, 2)
    await settle_down()
    assert set(group.held) == {"a1", "b1"}
    world.store.fail_writes = {world.store.write_count + 1}
    group.held["a1"].consumer.ack()
    await settle_down()
    await until(lambda: world.store.close_count == 1 and world.broker.refusal is None)
    group = Group(world, 3)
    await settle_down()
    assert set(group.held) == {"a1", "b1"}


# --- at random ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_order_per_key_holds_at_random(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(log_index, "MAX_AHEAD_BYTES", 500)
    chance = random.Random(seed)

    async with started_world() as world:
        await topic(world, **ORDERED)
        group, done, numbers = Group(world, 4), [], dict.fromkeys("abc", 0)
        for _ in range(150):
            await settle_down()
            match chance.choices(("publish", "settle", "tick", "restart"), (3, 8, 2, 0.3))[0]:
                case "publish":
                    key = chance.choice("aaabc")
                    numbers[key] += 1
                    await publish(world, f"{key}{numbers[key]}")
                case "settle" if group.held:
                    text = chance.choice(sorted(group.held))
                    act = chance.choice([("ack",), ("ack",), ("nack",), ("back",), ("dack", chance.random() * 3)])
                    done += [text] if act == ("ack",) else []
                    await group.settle(text, *act)
                case "tick":
                    world.clock.advance(1)
                    world.broker.tick()
                case "restart":
                    await world.restart()
                    group = Group(world, 4)
            await settle_down()
            keys = [text[0] for text in group.held]
            assert len(keys) == len(set(keys))
        world.clock.advance(100)
        world.broker.tick()
        for _ in range(1000):
            await settle_down()
            if not group.held:
                break
            text = min(group.held)
            done.append(text)
            await group.settle(text)
        for key, count in numbers.items():
            assert [int(text[1:]) for text in done if text[0] == key] == list(range(1, count + 1))
