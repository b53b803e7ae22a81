"""Wide topics come to rest and wake in turns; whatever happens between two turns, nothing is lost and nothing twice."""

import asyncio

import pytest

from miniqueue.broker.engine.waking import Waking
from miniqueue.broker.model.new_partitions import new_partitions
from miniqueue.broker.model.rest import put_to_rest, resting
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.share import TimeShare, at_once
from miniqueue.core.message.parts import part_name
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.start import Edge
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from tests.broker.support import World
from tests.broker.topics.resting import reopen, tick, topic_of
from tests.fakes import FakeConsumer, settle_down
from tests.server.access import sign_in_for, token_of, user
from tests.server.resp.clients import PARAMETERS, Client, command

PARTITIONS = 150


async def make(world: World) -> None:
    """Make a wide topic."""
    await world.broker.admin.carry_out(lambda made: world.broker.admin.create(b"t", {"partitions": PARTITIONS}, made))
    await world.broker.groups.create(b"t", b"g")


async def rested(world: World) -> None:
    """Make a wide topic, use it, and wait until it is at rest."""
    await make(world)
    for number in range(20):
        world.broker.publish_with(b"t", b"old", PublishOptions(key=b"%d" % number))
    await world.commit()
    await world.broker.purge(b"t")
    await world.commit()
    topic_of(world).pulse = None
    await tick(world)
    assert topic_of(world).at_rest is not None


async def begun(world: World, waking: "asyncio.Task[None]") -> None:
    """Wait until a topic has woken in part."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert topic_of(world).at_rest is not None
    assert not waking.done()


def wake(world: World) -> "asyncio.Task[None]":
    return asyncio.create_task(world.broker.waking.wake_named([b"t"]))


def described(topic: Topic) -> object:
    groups = [(group.name, group.id, group.receipts(), group.depth) for group in topic.groups.values()]
    partitions = [
        (number, partition.next_seq, partition.log_bytes, [*map(str, (c.state for c in partition.cursors.values()))])
        for number, partition in topic.partitions.items()
    ]
    return groups, partitions, topic.plain.number, topic.partition_count, topic.sole is None


async def test_a_wide_topic_wakes_in_turns_as_it_does_at_once(world):
    await rested(world)
    at_once = described(topic_of(world))
    await tick(world)
    waking = wake(world)
    await begun(world, waking)
    await waking
    assert topic_of(world).at_rest is None
    assert not world.broker.waking.at_rest
    assert described(topic_of(world)) == at_once


async def test_who_does_not_wait_may_use_a_topic_that_wakes(world):
    await rested(world)
    waking = wake(world)
    await begun(world, waking)
    await world.publish(b"t", b"new")
    topic = described(topic_of(world))
    await waking
    assert described(topic_of(world)) == topic
    assert await world.drain(b"t") == [b"new"]


async def test_a_topic_can_be_deleted_and_created_while_it_wakes(world):
    await rested(world)
    waking = wake(world)
    await begun(world, waking)
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"new")
    await waking
    assert topic_of(world).partition_count == 1
    assert await world.drain(b"t") == [b"new"]


async def test_a_deleted_topic_does_not_wake(world):
    await rested(world)
    waking = wake(world)
    await begun(world, waking)
    await world.broker.delete_topic(b"t")
    await waking
    assert b"t" not in world.broker.stats()
    assert world.broker.waking.named([b"t"]) == []
    assert not world.broker.waking.at_rest


async def test_the_store_can_be_read_again_while_a_topic_wakes(world):
    await rested(world)
    before = topic_of(world).at_rest
    waking = wake(world)
    await begun(world, waking)
    await reopen(world)
    await waking
    assert topic_of(world).at_rest is not before
    await world.broker.waking.wake_named([b"t"])
    await world.publish(b"t", b"new")
    assert await world.drain(b"t") == [b"new"]


async def test_a_caller_who_leaves_leaves_the_topic_at_rest_for_the_next_one(world):
    await rested(world)
    first, second = wake(world), wake(world)
    await begun(world, first)
    first.cancel()
    await second
    assert topic_of(world).at_rest is None
    assert first.cancelled()


async def test_many_callers_wait_for_one_topic(world):
    await rested(world)
    await asyncio.gather(*[wake(world) for _ in range(10)])
    assert topic_of(world).at_rest is None


@pytest.mark.parametrize("way", ["publish", "consume", "set", "grow", "seek", "delete", "reopen", "subscribe"])
async def test_a_topic_to_which_something_happens_meanwhile_does_not_come_to_rest(world, way):
    await make(world)
    work = resting(topic_of(world), world.broker._engine.events.changed)
    next(work)
    stream = FakeConsumer(world.broker, b"other")
    if way == "publish":
        await world.publish(b"t", b"new")
    elif way == "consume":
        await world.publish(b"t", b"new")
        await world.broker.purge(b"t")
    elif way == "set":
        await world.broker.admin.change(b"t", {"ttl_seconds": 60}).wait()
    elif way == "grow":
        await world.broker.admin.change(b"t", {"partitions": PARTITIONS + 1}).wait()
    elif way == "seek":
        await world.broker.groups.seek(b"t", b"g", Edge.EARLIEST)
    elif way == "delete":
        await world.broker.delete_topic(b"t")
    elif way == "reopen":
        await reopen(world)
    else:
        stream = FakeConsumer(world.broker, b"t")
    assert at_once(work) is None
    stream.consumer.close()


async def test_a_topic_to_which_nothing_happens_meanwhile_comes_to_rest(world):
    await make(world)
    world.broker.tick()
    for _ in range(4):
        await asyncio.sleep(0)
    assert topic_of(world).at_rest is None
    await settle_down()
    assert topic_of(world).at_rest is not None


async def test_commands_are_carried_out_in_order_after_the_topic_has_woken(world):
    await rested(world)
    client = Client(RespServer(world.broker, PARAMETERS))
    lines = [b"ECHO a", b"PUB t one", b"PUBLISH t two", b"PUBLISH t three", b"ECHO b", b"LEN t"]
    client.connection.data_received(b"".join(command(*line.split()) for line in lines))
    assert topic_of(world).at_rest is not None
    await settle_down()
    replies = client.transport.take()
    assert replies.startswith(b"$1\r\na\r\n")
    assert replies.endswith(b"+OK\r\n+OK\r\n$1\r\nb\r\n:3\r\n")
    assert sorted(await world.drain(b"t")) == [b"one", b"three", b"two"]


async def test_messages_with_keys_that_are_published_together_wait_for_their_topic(world):
    await rested(world)
    client = Client(RespServer(world.broker, PARAMETERS))
    client.connection.data_received(b"".join(command(*b"PUB t x KEY k".split()) for _ in range(3)))
    assert topic_of(world).at_rest is not None
    await settle_down()
    assert client.transport.take().count(b"$") == 3
    assert await world.drain(b"t") == [b"x"] * 3


async def test_a_transaction_waits_for_its_topics(world):
    await rested(world)
    client = Client(RespServer(world.broker, PARAMETERS))
    await client.say(b"MULTI")
    await client.say(b"PUBLISH t one")
    await world.commit()
    await tick(world)
    assert topic_of(world).at_rest is not None
    client.send(b"EXEC")
    assert topic_of(world).at_rest is not None
    await settle_down()
    assert client.transport.take() == b"*1\r\n+OK\r\n"
    assert await world.drain(b"t") == [b"one"]


async def test_what_a_client_sent_before_it_left_is_carried_out(world):
    await rested(world)
    client = Client(RespServer(world.broker, PARAMETERS))
    client.send(b"PUB", b"t", b"last")
    assert topic_of(world).at_rest is not None
    client.transport.lose()
    await settle_down()
    await world.commit()
    assert await world.drain(b"t") == [b"last"]


async def test_a_request_that_is_cancelled_does_nothing(world):
    await rested(world)
    app = HttpApp(world.broker)
    scope = {"type": "http", "method": "POST", "path": "/publish/t", "raw_path": b"/publish/t"}
    scope |= {"query_string": b"", "headers": [(b"host", b"localhost:8080")]}

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"x"}

    async def send(_message: dict[str, object]) -> None:
        raise AssertionError

    request = asyncio.create_task(app(scope, receive, send))
    await begun(world, request)
    request.cancel()
    await settle_down()
    assert topic_of(world).at_rest is not None
    await world.broker.waking.wake_named([b"t"])
    assert await world.drain(b"t") == []


async def test_only_a_user_of_a_topic_wakes_it(world):
    await rested(world)
    sign_in = sign_in_for(user("stranger", publisher=("other",)), user("friend", publisher=("t",)))
    client = Client(RespServer(world.broker, PARAMETERS, sign_in))
    assert (await client.say(b"PUB t x")).startswith(b"-NOAUTH")
    client.send(b"AUTH", token_of("stranger"))
    await settle_down()
    client.transport.take()
    assert (await client.say(b"PUB t x")).startswith(b"-NOPERM")
    assert topic_of(world).at_rest is not None
    client.send(b"AUTH", token_of("friend"))
    await settle_down()
    client.transport.take()
    assert not (await client.say(b"PUB t x")).startswith(b"-")
    assert topic_of(world).at_rest is None


async def test_a_payload_is_no_name(world):
    await rested(world)
    client = Client(RespServer(world.broker, PARAMETERS))
    await client.say(b"MULTI")
    client.connection.data_received(command(b"PUBLISH", b"a", b"t") + command(b"PUBLISH", b"a", b"u"))
    assert client.transport.take() == b"+QUEUED\r\n" * 2
    assert topic_of(world).at_rest is not None


async def test_the_parts_of_a_spread_topic_are_named_with_it():
    part = Topic(part_name(b"t", 1))
    part.begin(1)
    first = part.first_partition
    part.add_partitions(new_partitions(range(first + 1, first + PARTITIONS), part.group_ids))
    waking = Waking(TimeShare())
    assert put_to_rest(part, waking.changed)
    waking.changed(part)
    assert waking.named([b"t"]) == waking.named([b"x", part.name]) == waking.named([b"*"]) == [part]
    assert waking.named([b"x", b"x*"]) == []
    await waking.wake_named([b"t"])
    assert part.at_rest is None
    assert not waking.at_rest
