"""Empty topics are put to rest, use little memory then, and are as before when they are used again."""

import gc
import tracemalloc
from contextlib import suppress

import pytest

from miniqueue.broker.model.limits import REST_SECONDS
from miniqueue.broker.model.new_partitions import new_partitions
from miniqueue.broker.model.rest import put_to_rest
from miniqueue.broker.model.topic import Topic
from miniqueue.core.log.delayed import Delayed
from miniqueue.core.log.retention import Retained
from miniqueue.core.message.message import ChunkExtent
from miniqueue.core.options.read import ReadOptions
from miniqueue.core.settings.fields import Side
from miniqueue.core.settings.settings import DEFAULT_SETTINGS
from miniqueue.errors.requests import PausedError
from tests.broker.support import world_with
from tests.broker.topics.resting import tick, topic_of
from tests.fakes import settle_down

PARTITIONS = 1000


def is_at_rest(world, name: bytes = b"t") -> bool:
    return topic_of(world, name).at_rest is not None


async def used_and_emptied(world, name: bytes = b"t", **settings: object) -> None:
    """Publish and acknowledge two messages, and put the topic to rest."""
    if settings:
        world.broker.admin.create(name, settings)
    await world.publish(name, b"a", b"b")
    assert await world.drain(name) == [b"a", b"b"]
    await world.commit()
    await tick(world)
    assert is_at_rest(world, name)


def made(make, count: int) -> float:
    """Return how many bytes each of `count` things uses that `make` returns, together."""
    gc.collect()
    tracemalloc.start()
    try:
        before_bytes, _ = tracemalloc.get_traced_memory()
        kept = make()
        gc.collect()
        after_bytes, _ = tracemalloc.get_traced_memory()
        assert kept
        return (after_bytes - before_bytes) / count
    finally:
        tracemalloc.stop()


def used(topic: Topic) -> Topic:
    """Give the partitions and groups of a topic different counts, as if they had been used."""
    for partition in topic.partitions.values():
        count = 1_000_000 + partition.number * 7919 % 1000
        partition.next_seq, partition.log_bytes = count, 1000 * count
        for cursor in partition.cursors.values():
            cursor.acked_count = cursor.tail_seq = cursor.read_seq = count
            cursor.tail_bytes = cursor.gone_bytes = 1000 * count
            cursor.next_receipt += count
    return topic


def at_rest(number: int, partition_count: int = 1, groups: tuple[bytes, ...] = ()) -> Topic:
    topic = Topic(b"topic-%d" % number)
    topic.begin(number + 1, groups)
    topic.add_partitions(new_partitions(range(1, partition_count), topic.group_ids))
    assert put_to_rest(used(topic), lambda _: None)
    return topic


def test_a_topic_at_rest_uses_less_than_a_kilobyte():
    assert made(lambda: {b"%d" % number: at_rest(number) for number in range(1000)}, 1000) < 1024


def test_a_partition_at_rest_uses_less_than_200_bytes():
    assert made(lambda: at_rest(0, PARTITIONS), PARTITIONS) < 200


def test_a_group_at_rest_uses_less_than_200_bytes_for_each_partition():
    groups = tuple(b"group-%d" % number for number in range(10))
    alone, together = made(lambda: at_rest(0, 100), 1), made(lambda: at_rest(0, 100, groups), 1)
    assert (together - alone) / (100 * len(groups)) < 200


def test_a_partition_at_rest_that_retains_messages_uses_less_than_200_bytes():
    def retaining() -> Topic:
        topic = Topic(b"t")
        topic.begin(1, (), DEFAULT_SETTINGS._replace(retention_seconds=60, partitions=PARTITIONS))
        topic.add_partitions(new_partitions(range(1, PARTITIONS), topic.group_ids))
        for number, partition in used(topic).partitions.items():
            partition.retained = Retained(partition.next_seq - 7 * number)
            partition.retained.first = ChunkExtent(partition.retained.start_seq, partition.next_seq, 10**12, 5, 10**9)
        assert put_to_rest(topic, lambda _: None)
        return topic

    assert made(retaining, PARTITIONS) < 200


def test_a_topic_that_was_never_used_wakes_as_it_was():
    topic = Topic(b"t")
    topic.begin(1, [b"a", b"b"])
    topic.add_partitions(new_partitions([1, 2], topic.group_ids))
    before = describe(topic)
    woken = []
    assert put_to_rest(topic, woken.append)
    assert (topic.at_rest is not None, woken) == (True, [])
    assert describe(topic) == before
    assert (topic.at_rest, woken) == (None, [topic])


def describe(topic: Topic) -> object:
    groups = [(group.name, group.id, group.receipts(), group.depth) for group in topic.groups.values()]
    partitions = [
        (number, partition.next_seq, partition.log_bytes, [*map(str, (c.state for c in partition.cursors.values()))])
        for number, partition in topic.partitions.items()
    ]
    return groups, partitions, topic.plain.number, topic.partition_count, topic.sole is None


def test_what_a_topic_does_not_have_is_an_error_awake_and_at_rest():
    topic = at_rest(0)
    with pytest.raises(AttributeError, match="no colour"):
        _ = topic.colour
    with pytest.raises(AttributeError, match="no plain"):
        _ = Topic(b"t").plain


@world_with(rest_seconds=REST_SECONDS)
async def test_a_topic_comes_to_rest_when_no_client_has_used_it_for_a_minute(world):
    await world.publish(b"t", b"a")
    await world.drain(b"t")
    await world.commit()
    for _ in range(2):  # the first check of the groups still finds the consumer
        assert not is_at_rest(world)
        for _ in range(61):
            world.clock.advance(1)
            await tick(world)
    world.clock.advance(REST_SECONDS)
    await tick(world)
    assert is_at_rest(world)


@pytest.mark.parametrize("what", ["a message", "a consumer", "an uncommitted message", "a delayed message"])
async def test_a_topic_in_which_something_is_stays_awake(world, what):
    await used_and_emptied(world)
    if what == "a consumer":
        world.consumer(b"t").consumer.request()
    elif what == "a delayed message":
        world.broker.delayed.add(topic_of(world), 10**15, Delayed(0, 1, b"later"))
        await world.commit()
    else:
        world.broker.publish(b"t", [b"c"])
        if what == "a message":
            await world.commit()
    world.broker.tick()
    await settle_down()
    assert not is_at_rest(world)


@pytest.mark.parametrize("settings", [{"trace": True}, {"group_idle_seconds": 60}])
async def test_a_topic_whose_settings_need_its_partitions_stays_awake(world, settings):
    world.broker.admin.create(b"t", settings)
    await world.broker.groups.create(b"t", b"g")
    await world.commit()
    await tick(world)
    assert not is_at_rest(world)
    await world.restart()
    assert not is_at_rest(world)


@pytest.mark.parametrize("settings", [{"retention_seconds": 60}, {"retention_messages": 5}, {"group_idle_seconds": 60}])
async def test_a_topic_that_would_retain_messages_or_end_groups_rests_while_it_has_none(world, settings):
    world.broker.admin.create(b"t", settings)
    await world.commit()
    await tick(world)
    assert is_at_rest(world)
    await world.restart()
    assert is_at_rest(world)


async def kept(world) -> list[bytes]:
    """Return the payloads that can be read again."""
    page = await world.broker.inspect.log.read(b"t", 0, ReadOptions())
    return [payload for run in page.runs for payload in run.payloads]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_a_topic_retains_can_be_read_after_a_rest_until_its_time_is_over(world, is_restarted):
    await used_and_emptied(world, retention_seconds=60)
    if is_restarted:
        await world.restart()
        await tick(world)
    assert is_at_rest(world)
    assert topic_of(world).stored_bytes == 2
    world.clock.advance(59)
    await tick(world)
    assert is_at_rest(world)
    assert await kept(world) == [b"a", b"b"]
    await tick(world)
    assert is_at_rest(world)
    world.clock.advance(1)
    await tick(world)
    assert is_at_rest(world)
    assert topic_of(world).stored_bytes == 0
    assert await kept(world) == []


async def test_a_topic_at_rest_forgets_what_shorter_retention_does_not_keep(world):
    await used_and_emptied(world, retention_seconds=60)
    await world.publish(b"t", b"c")
    await world.drain(b"t")
    await world.commit()
    await tick(world)
    assert is_at_rest(world)
    world.broker.admin.change(b"t", {"retention_seconds": None, "retention_messages": 1})
    await world.commit()
    await tick(world)
    assert await kept(world) == [b"c"]


async def test_statistics_do_not_wake_a_topic(world):
    await world.publish(b"t", b"a", b"b")
    await world.drain(b"t")
    await world.commit()
    before = await world.broker.inspect.stats(b"t")
    await tick(world)
    assert is_at_rest(world)
    sums = await world.broker.inspect.totals()
    assert (sums["published"], sums["acknowledged"], sums["depth"]) == (2, 2, 0)
    assert world.broker.stats()[b"t"].acknowledged == 2
    assert await world.broker.inspect.content() == (1, 0)
    assert world.broker.admin.leased_count == 0
    assert is_at_rest(world)
    after = await world.broker.inspect.stats(b"t")
    assert not is_at_rest(world)
    recent = dict.fromkeys(["latency_p50_seconds", "latency_p99_seconds"])  # a broker rests nothing that was used now
    assert after == before | recent


async def test_a_look_at_all_topics_leaves_them_at_rest(world):
    for name in (b"a", b"b"):
        await used_and_emptied(world, name)
    async for topic in world.broker.inspect.existing():
        await world.broker.inspect.figures(topic)
    assert [is_at_rest(world, name) for name in (b"a", b"b")] == [True, True]


async def test_messages_go_on_after_a_rest(world):
    await used_and_emptied(world)
    assert world.broker.publish(b"t", [b"c"]).first_seq == 2
    await world.commit()
    assert await world.drain(b"t") == [b"c"]


async def test_receipts_from_before_a_rest_name_no_later_message(world):
    await world.publish(b"t", b"a")
    consumer = await world.holding(b"t")
    (before,) = consumer.leases
    consumer.consumer.ack()
    consumer.consumer.close()
    await world.commit()
    await tick(world)
    assert is_at_rest(world)
    await world.publish(b"t", b"b")
    consumer = await world.holding(b"t")
    assert consumer.leases[0].receipt > before.receipt


async def test_a_paused_topic_at_rest_is_paused_after_a_restart(world):
    await used_and_emptied(world)
    world.broker.admin.pause(b"t", Side.IN)
    await world.commit()
    await world.restart()
    assert is_at_rest(world)
    with pytest.raises(PausedError):
        world.broker.publish(b"t", [b"c"])


async def test_a_start_leaves_empty_topics_at_rest_and_serves_them(world):
    await used_and_emptied(world)
    await world.publish(b"u", b"x")
    await world.restart()
    assert [is_at_rest(world, name) for name in (b"t", b"u")] == [True, False]
    assert await world.drain(b"u") == [b"x"]
    assert world.broker.publish(b"t", [b"c"]).first_seq == 2
    await world.commit()
    assert await world.drain(b"t") == [b"c"]


async def test_a_consumer_that_waits_through_a_fault_gets_what_comes_next(world):
    await used_and_emptied(world)
    consumer = world.consumer(b"t")
    consumer.consumer.request()
    world.store.fail_writes = {world.store.write_count + 1}
    with suppress(Exception):
        await world.publish(b"other", b"x")
    await settle_down()
    await world.broker.inspect.stats(b"t")
    await world.publish(b"t", b"c")
    await settle_down()
    assert [lease.payloads for lease in consumer.leases] == [[b"c"]]


async def test_the_time_without_a_consumer_goes_on_at_rest(world):
    await used_and_emptied(world)
    for _ in range(200):
        world.clock.advance(1)
        await tick(world)
    (group,) = topic_of(world).existing_groups
    assert group.unread_seconds >= 120


async def test_a_topic_with_new_partitions_comes_to_rest_when_the_older_messages_are_gone(world):
    await world.publish(b"t", b"a")
    world.broker.admin.change(b"t", {"partitions": 4})
    await world.commit()
    await tick(world)
    assert topic_of(world).growths
    assert await world.drain(b"t") == [b"a"]
    await world.commit()
    await tick(world)
    assert is_at_rest(world)
    await world.commit()
    await world.restart()
    assert is_at_rest(world)
    assert not topic_of(world).growths


@world_with(rest_seconds=REST_SECONDS)
async def test_a_topic_that_was_woken_stays_awake_for_a_minute(world):
    await world.publish(b"t", b"a")
    await world.drain(b"t")
    await world.commit()
    while not is_at_rest(world):
        world.clock.advance(1)
        await tick(world)
    world.clock.advance(REST_SECONDS - 2)
    await world.broker.inspect.stats(b"t")
    for _ in range(int(REST_SECONDS)):
        assert not is_at_rest(world)
        world.clock.advance(1)
        await tick(world)
    for _ in range(3):
        world.clock.advance(1)
        await tick(world)
    assert is_at_rest(world)
