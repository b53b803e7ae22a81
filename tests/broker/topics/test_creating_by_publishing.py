"""Messages that create a topic with many partitions wait until these are made, in turns, in which others act."""

import asyncio
import re
from collections.abc import Callable

import pytest

from miniqueue.broker.model import new_partitions
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.quotas import Quotas
from miniqueue.core.settings.settings import DEAD_LETTER_SUFFIX
from miniqueue.errors import InternalError
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from tests.broker.support import World, world_with
from tests.fakes import FakeConsumer, settle_down
from tests.server.access import sign_in_for, token_of, user
from tests.server.resp.clients import PARAMETERS, Client, command

PARTITIONS = 9
#: Iterations after which nothing is left to be interrupted.
MOST = 24
EACH_TURN = pytest.mark.parametrize("turns", range(0, MOST, 5))


@pytest.fixture(autouse=True)
def _few_in_turn(monkeypatch):
    monkeypatch.setattr(new_partitions, "CURSORS_IN_TURN", 2)


@pytest.fixture
def wide(world) -> World:
    """A broker whose new topics have many partitions, none of which are spare."""
    world.broker.set_defaults(TopicDefaults({"*": {"partitions": PARTITIONS}}))
    return world


def counts(world: World, name: bytes = b"t") -> set[int]:
    """Return how many partitions a topic has, by its settings, and by what is in memory."""
    topic = world.broker._engine.topics.by_name[name]
    return {topic.settings.partitions, len(topic.partitions)} | {len(group.cursors) for group in topic.existing_groups}


async def spare(world: World) -> None:
    """Wait until partitions are spare."""
    world.broker.tick()
    await settle_down()


Send = Callable[[World], "asyncio.Task[object] | Client"]


def by_resp(*lines: bytes) -> Send:
    def send(world: World) -> Client:
        client = Client(RespServer(world.broker, PARAMETERS))
        client.connection.data_received(b"".join(command(*line.split()) for line in lines))
        return client

    return send


def by_http(target: str, body: bytes, *headers: tuple[bytes, bytes]) -> Send:
    def send(world: World) -> "asyncio.Task[object]":
        path, _, query = target.partition("?")
        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode()}
        scope |= {"query_string": query.encode(), "headers": [(b"host", b"localhost:8080"), *headers]}

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body}

        async def reply(message: dict[str, object]) -> None:
            assert message.get("status", 200) in (200, 201)

        return asyncio.create_task(HttpApp(world.broker)(scope, receive, reply))

    return send


LINES = (b"content-type", b"application/x-ndjson")
WAYS: dict[str, Send] = {
    "PUBLISH": by_resp(b"PUBLISH t x"),
    "PUB": by_resp(b"PUB t x KEY k"),
    "PUB, pipelined": by_resp(b"PUB t x KEY k", b"PUB t x KEY l"),
    "PUB UNIQUE": by_resp(b"PUB t x UNIQUE k", b"PUB t y UNIQUE l"),
    "PUBBATCH": by_resp(b"PUBBATCH t id x y"),
    "EXEC": by_resp(b"MULTI", b"PUBLISH t x", b"PUBLISH t y", b"EXEC"),
    "EXEC of PUB": by_resp(b"MULTI", b"PUB t x", b"EXEC"),
    "REQUEST": by_resp(b"REQUEST t x TIMEOUT 5"),
    "POST /publish": by_http("/publish/t", b"x"),
    "a key over HTTP": by_http("/publish/t?unique=k", b"x"),
    "lines over HTTP": by_http("/publish/t", b'{"msg": "eA=="}\n{"msg": "eQ=="}\n', LINES),
}
EACH_WAY = pytest.mark.parametrize("way", [name for name in WAYS if name != "EXEC of PUB"])


async def finished(sent: "asyncio.Task[object] | Client") -> None:
    """Wait until what was sent is done, without an error."""
    await settle_down()
    if isinstance(sent, Client):
        assert b"-" not in {line[:1] for line in sent.transport.take().splitlines()}
        sent.transport.lose()
    else:
        await sent


async def drained(world: World) -> list[bytes]:
    await world.commit()
    return sorted(await world.drain(b"t"))


@EACH_WAY
async def test_a_message_waits_for_the_partitions_of_its_topic(way, wide):
    sent = WAYS[way](wide)
    for _ in range(3):
        await asyncio.sleep(0)
    assert b"t" not in wide.broker.topics()
    await finished(sent)
    assert counts(wide) == {PARTITIONS}
    assert (await drained(wide))[0] == b"x"


@EACH_WAY
async def test_it_waits_for_nothing_if_partitions_are_spare(way, wide):
    await spare(wide)
    sent = WAYS[way](wide)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert b"t" in wide.broker.topics()
    await finished(sent)
    assert counts(wide) == {PARTITIONS}


@EACH_TURN
@EACH_WAY
async def test_the_topic_may_be_created_meanwhile(way, turns, wide):
    sent = WAYS[way](wide)
    for _ in range(turns):
        await asyncio.sleep(0)
    if b"t" not in wide.broker.topics():
        await wide.broker.admin.create(b"t", {"partitions": 1}).wait()
    await finished(sent)
    assert len(counts(wide)) == 1
    assert b"x" in await drained(wide)


@EACH_TURN
@EACH_WAY
async def test_the_topic_may_be_deleted_meanwhile(way, turns, wide):
    sent = WAYS[way](wide)
    for _ in range(turns):
        await asyncio.sleep(0)
    had_messages = b"t" in wide.broker.topics()
    if had_messages:
        await wide.broker.delete_topic(b"t")
    await settle_down()
    if isinstance(sent, Client):
        sent.transport.lose()
    else:
        await asyncio.gather(sent, return_exceptions=True)
    await settle_down()
    assert had_messages or counts(wide) == {PARTITIONS}


@EACH_TURN
@EACH_WAY
async def test_the_store_may_be_read_again_meanwhile(way, turns, wide):
    sent = WAYS[way](wide)
    for _ in range(turns):
        await asyncio.sleep(0)
    wide.broker._engine.journal.distrust(InternalError("a bug"))
    while wide.broker.refusal is not None:  # noqa: ASYNC110 - until it has been reopened
        await asyncio.sleep(0.01)
    await settle_down()
    if isinstance(sent, Client):
        sent.transport.lose()
    else:
        await asyncio.gather(sent, return_exceptions=True)
    await settle_down()
    if b"t" in wide.broker.topics():
        assert counts(wide) == {PARTITIONS}
    await spare(wide)
    await wide.publish(b"other", b"z")
    assert counts(wide, b"other") == {PARTITIONS}


@EACH_TURN
async def test_a_client_may_leave_meanwhile(turns, wide):
    client = WAYS["PUBLISH"](wide)
    for _ in range(turns):
        await asyncio.sleep(0)
    client.transport.lose()
    await settle_down()
    assert await drained(wide) == [b"x"]  # it was sent before
    assert counts(wide) == {PARTITIONS}


async def test_a_request_that_is_cancelled_creates_nothing(wide):
    request = WAYS["POST /publish"](wide)
    for _ in range(3):
        await asyncio.sleep(0)
    request.cancel()
    await settle_down()
    assert wide.broker.topics() == []
    await finished(WAYS["PUBLISH"](wide))
    assert counts(wide) == {PARTITIONS}


async def test_the_next_commands_of_a_connection_do_not_overtake_the_one_that_waits(wide):
    lines = [
        b"ECHO a",
        b"PUBLISH t one",
        b"PUBLISH t two",
        b"PUB t three KEY k",
        b"LEN t",
        b"PUBLISH u four",
        b"TOPICS",
    ]
    client = by_resp(*lines)(wide)
    assert client.transport.take() == b"$1\r\na\r\n"
    await settle_down()
    replies = client.transport.take()
    assert replies.startswith(b"+OK\r\n+OK\r\n$")
    assert replies.endswith(b":3\r\n+OK\r\n*2\r\n$1\r\nt\r\n$1\r\nu\r\n")
    assert await drained(wide) == [b"one", b"three", b"two"]


async def test_messages_of_two_connections_wait_for_one_topic(wide):
    sent = [WAYS["PUBLISH"](wide) for _ in range(5)]
    for each in sent:
        await finished(each)
    assert await drained(wide) == [b"x"] * 5
    assert counts(wide) == {PARTITIONS}


async def test_messages_to_many_new_topics_wait_for_each_of_them(wide):
    names = [b"t%d" % number for number in range(5)]
    client = by_resp(*[b"PUBLISH %b x" % name for name in names])(wide)
    others = [by_resp(b"PUBLISH u%d x" % number)(wide) for number in range(5)]
    await settle_down()
    assert client.transport.take() == b"+OK\r\n" * 5
    assert [other.transport.take() for other in others] == [b"+OK\r\n"] * 5
    assert {frozenset(counts(wide, name)) for name in wide.broker.topics()} == {frozenset({PARTITIONS})}


@world_with(max_message_bytes=5)
async def test_of_a_run_only_the_message_that_is_too_large_is_refused(wide):
    client = by_resp(b"PUBLISH t too-large", b"PUBLISH t one", b"PUBLISH t two", b"ECHO a")(wide)
    await settle_down()
    replies = client.transport.take()
    assert replies.startswith(b"-")
    assert replies.endswith(b"\r\n+OK\r\n+OK\r\n$1\r\na\r\n")
    assert await drained(wide) == [b"one", b"two"]


@world_with(limits=BrokerLimits(max_uncommitted_bytes=4))
async def test_a_message_waits_for_room_and_then_for_partitions(wide):
    client = by_resp(b"PUBLISH t large-one", b"PUBLISH u large-two", b"PUBLISH u large-three")(wide)
    await settle_down()
    assert client.transport.take() == b"+OK\r\n" * 3
    assert counts(wide, b"u") == {PARTITIONS}


async def test_a_message_that_waits_counts_once_for_the_rate_of_its_user(wide):
    wide.broker.set_quotas({"ann": Quotas(max_messages_per_second=2)})
    client = Client(RespServer(wide.broker, PARAMETERS, sign_in_for(user("ann", publisher=("*",)))))
    client.send(b"AUTH", token_of("ann"))
    await settle_down()
    client.transport.take()
    assert await client.say(b"PUBLISH t x") == b"+OK\r\n"
    assert await client.say(b"PUBLISH t x") == b"+OK\r\n"
    assert (await client.say(b"PUBLISH t x")).startswith(b"-LIMIT user ann publishes more than 2 messages a second")


async def test_groups_that_wait_for_a_new_topic_get_all_of_its_partitions(wide):
    consumers = [FakeConsumer(wide.broker, b"t", b"g%d" % number) for number in range(3)]
    for consumer in consumers:
        consumer.consumer.request()
    await spare(wide)
    await finished(WAYS["PUBLISH"](wide))
    assert counts(wide) == {PARTITIONS}
    assert [lease.count for consumer in consumers for lease in consumer.leases] == [1, 1, 1]


async def reject(world: World) -> None:
    """Make the message of the topic a dead letter."""
    client = Client(RespServer(world.broker, PARAMETERS))
    (receipt,) = re.findall(rb"[0-9a-f]{16}-[0-9]+", await client.say(b"RECEIVE t"))
    await client.say(b"REJECT t %b broken" % receipt)


async def test_a_dead_letter_takes_the_spare_partitions(wide):
    await wide.broker.admin.create(b"t", {"partitions": 1}).wait()
    await spare(wide)
    partitions = [*wide.broker._engine.topics.spare._by_number.values()]
    assert len(partitions) == PARTITIONS - 1
    await wide.publish(b"t", b"x")
    await reject(wide)
    topic = wide.broker._engine.topics.by_name[b"t" + DEAD_LETTER_SUFFIX]
    assert [*topic.partitions.values()][1:] == partitions
    assert wide.broker._engine.topics.spare._by_number == {}


async def test_a_dead_letter_does_not_wait_if_none_are_spare(wide):
    await wide.broker.admin.create(b"t", {"partitions": 1}).wait()
    await wide.publish(b"t", b"x")
    await reject(wide)
    assert counts(wide, b"t" + DEAD_LETTER_SUFFIX) == {PARTITIONS}


async def test_a_schedule_waits_for_its_topic(wide):
    client = Client(RespServer(wide.broker, PARAMETERS))
    assert await client.say(b"SCHEDULE SET s EVERY 1 t x") == b"+OK\r\n"
    wide.clock.advance(1.5)
    wide.broker.tick()
    await settle_down()
    assert counts(wide) == {PARTITIONS}
    assert await drained(wide) == [b"x"]


async def test_no_partitions_are_spare_without_such_defaults(wide):
    await spare(wide)
    wide.broker.set_defaults(TopicDefaults({"narrow": {"partitions": 2}}))
    await spare(wide)
    assert wide.broker._engine.topics.spare._by_number == {}


async def test_a_transaction_of_several_acts_creates_no_wide_topic(world):
    world.broker.set_defaults(TopicDefaults({"*": {"partitions": 100}}))
    client = by_resp(b"MULTI", b"PUB t x KEY k", b"PUB u x KEY k", b"EXEC")(world)
    await settle_down()
    assert b"too much work for one commit" in client.transport.take()
    assert world.broker.topics() == []


async def test_who_publishes_within_the_broker_is_told_that_partitions_are_due(wide):
    with pytest.raises(new_partitions.PartitionsDueError):
        wide.broker.publish_with(b"t", b"x", PublishOptions(key=b"k"))
    assert wide.broker.topics() == []
