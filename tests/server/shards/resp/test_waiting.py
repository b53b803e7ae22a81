"""A request for messages of several shards waits in all at once, and leases nothing that its client does not get."""

import asyncio
from collections.abc import Callable

import hiredis
import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message.parts import part_name
from miniqueue.server.shards.resp.receiving import without_receipts
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS, Fleet, fleet_in, topic_in
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.clients import DoorClient

OWN, OTHER, THIRD = (topic.encode() for topic in TOPICS)
#: A spread topic with its home in the shard of the door.
SPREAD = topic_in(0, "spread").encode()
PARTS = 5
OF_ALL = (b"TOPICS", OWN, OTHER, THIRD)


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    """A client for which the spread topic has been created."""
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", SPREAD, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


def value_of(reply: bytes):
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


def topics_in(fleet: Fleet) -> list[tuple[Fleet, object]]:
    """Return the topics and parts of all shards, in memory."""
    return [topic for member in fleet.members for topic in member.broker._engine.topics.by_name.values()]


def leased_count(fleet: Fleet) -> int:
    return sum(
        cursor.leased_count for topic in topics_in(fleet) for group in topic.groups.values() for cursor in group.cursors
    )


def waiting_shards(fleet: Fleet) -> set[int]:
    """Return the shards in which a request waits."""
    return {PLACING.shard_of(topic.name) for topic in topics_in(fleet) if topic.default.waiters}


def is_idle(fleet: Fleet) -> bool:
    """Return whether no request waits, and nothing is leased."""
    return not waiting_shards(fleet) and not leased_count(fleet)


async def counted(fleet: Fleet, count: str) -> int:
    """Return the sum of a count of all topics."""
    total = 0
    for member in fleet.members:
        for name in member.broker.topics():
            total += (await member.broker.inspect.stats(name))[count]
    return total


async def publish(fleet: Fleet, topic: bytes, payload: bytes = b"x") -> None:
    await fleet.broker_with(topic.decode()).publish(topic, [payload]).commit.wait()


WAITS = [(b"RECEIVEANY", b"WAIT", b"60", *OF_ALL), (b"RECEIVE", SPREAD, b"WAIT", b"60")]


@pytest.mark.parametrize("words", WAITS, ids=["any", "spread"])
async def test_a_request_waits_in_all_shards_and_asks_none_again(client, connect, fleet, words):
    client.tell(words)
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    commands = [member.resp.shared.commands_processed for member in fleet.members]
    for _ in range(1000):
        await asyncio.sleep(0)
    assert [member.resp.shared.commands_processed for member in fleet.members] == commands
    await connect(1).ask(b"PUB", THIRD if words[0] == b"RECEIVEANY" else SPREAD, b"hello")
    [reply] = await client.hear()
    assert b"hello" in reply
    await until(lambda: waiting_shards(fleet) == set())
    assert leased_count(fleet) == 1


@pytest.mark.parametrize("topic", [OWN, OTHER, THIRD])
async def test_what_comes_to_any_shard_is_the_reply(client, fleet, topic):
    client.tell((b"RECEIVEANY", b"WAIT", b"60", b"COUNT", b"10", *OF_ALL))
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    await publish(fleet, topic)
    [reply] = await client.hear()
    [[name, [[receipt, payload, _]]]] = value_of(reply)
    assert (name, payload) == (topic, b"x")
    assert await client.ask(b"ACK", topic, receipt) == b"+OK\r\n"


@pytest.mark.parametrize("words", WAITS, ids=["any", "spread"])
async def test_messages_that_come_to_all_shards_at_once_are_leased_in_one(client, fleet, words):
    names = OF_ALL[1:] if words[0] == b"RECEIVEANY" else [part_name(SPREAD, number) for number in range(PARTS)]
    client.tell(words)
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    await asyncio.gather(*(publish(fleet, name, name) for name in names))
    [reply] = await client.hear()
    received = value_of(reply)
    messages = received if words[0] == b"RECEIVE" else [message for _, messages in received for message in messages]
    assert len(messages) == 1
    await until(lambda: leased_count(fleet) == 1)
    assert await counted(fleet, "ready") == len(names) - 1
    others = value_of(await client.ask(b"RECEIVEANY", b"COUNT", b"10", b"PATTERN", b"*"))
    attributes = [words for _, messages in others for _, _, words in messages]
    counts = [int(words[words.index(b"disconnects") + 1]) for words in attributes if b"disconnects" in words]
    assert sum(counts) < COUNT  # what the other shards had leased


@pytest.mark.parametrize("words", WAITS, ids=["any", "spread"])
async def test_messages_that_are_acknowledged_at_once_are_those_of_the_reply(client, fleet, words):
    names = OF_ALL[1:] if words[0] == b"RECEIVEANY" else [part_name(SPREAD, number) for number in range(PARTS)]
    client.tell((*words[:2], b"AUTOACK", *words[2:]) if words[0] == b"RECEIVE" else (words[0], b"AUTOACK", *words[1:]))
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    await asyncio.gather(*(publish(fleet, name, name) for name in names))
    [reply] = await client.hear()
    received = value_of(reply)
    [[receipt, payload, _]] = received if words[0] == b"RECEIVE" else received[0][1]
    assert receipt == b""
    assert payload in names
    await until(lambda: leased_count(fleet) == 0)
    assert await counted(fleet, "acknowledged") == 1
    assert await counted(fleet, "ready") == len(names) - 1


@pytest.mark.parametrize("words", WAITS, ids=["any", "spread"])
async def test_the_waiting_time_ends_without_messages(client, fleet, words):
    words = tuple(b"0.05" if word == b"60" else word for word in words)
    assert await client.ask(*words) == b"*0\r\n"
    assert is_idle(fleet)


@pytest.mark.parametrize("words", WAITS, ids=["any", "spread"])
async def test_a_shard_that_ends_meanwhile_is_reported(client, fleet, words):
    client.tell(words)
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    fleet.lose(2)
    [reply] = await client.hear()
    assert reply.startswith(b"-TRYAGAIN")
    await until(lambda: is_idle(fleet))


@pytest.mark.parametrize("words", WAITS, ids=["any", "spread"])
async def test_a_client_that_closes_its_half_does_not_wait(client, fleet, words):
    client.tell(words, words)
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    client.connection.eof_received()
    assert await client.hear(2) == [b"*0\r\n"] * 2
    await until(lambda: client.transport.is_closed)
    assert is_idle(fleet)


async def test_what_follows_a_wait_does_not_wait_for_the_shards_that_were_slower(client, fleet):
    client.tell((b"RECEIVEANY", b"WAIT", b"60", *OF_ALL), (b"RECEIVEANY", b"WAIT", b"60", *OF_ALL), (b"PING",))
    for topic in (OTHER, THIRD):
        await until(lambda: waiting_shards(fleet) == {0, 1, 2})
        await publish(fleet, topic, topic)
    first, second, pong = await client.hear(3)
    assert (value_of(first)[0][0], value_of(second)[0][0], pong) == (OTHER, THIRD, b"+PONG\r\n")


async def test_a_pattern_waits_in_all_shards(client, fleet):
    client.tell((b"RECEIVEANY", b"WAIT", b"60", b"PATTERN", b"new.*"))
    for _ in range(100):
        await asyncio.sleep(0)
    name = topic_in(2, "new.").encode()
    await publish(fleet, name)
    [reply] = await client.hear()
    assert value_of(reply)[0][0] == name


async def test_nothing_is_awaited_unless_the_user_may_consume_all_topics(tmp_path):
    bob = user("bob", subscriber=(TOPICS[0],))
    async with fleet_in(tmp_path, sign_in_for(bob)) as fleet:
        client = DoorClient(fleet.members[0].resp)
        assert await client.ask(b"AUTH", b"bob", token_of("bob")) == b"+OK\r\n"
        assert (await client.ask(b"RECEIVEANY", b"WAIT", b"60", *OF_ALL)).startswith(b"-NOPERM")
        await until(lambda: is_idle(fleet))
        client.transport.lose()


NOT_PERMITTED = b"-NOPERM this user has no permissions to run the 'receiveany' command"


async def test_no_group_is_joined_unless_the_user_may_consume_all_topics(tmp_path):
    bob = user("bob", subscriber=(SPREAD.decode(), TOPICS[1]))
    async with fleet_in(tmp_path, sign_in_for(bob, user("ada", admin=("*",), publisher=("*",)))) as fleet:
        admin = DoorClient(fleet.members[0].resp)
        assert await admin.ask(b"AUTH", b"ada", token_of("ada")) == b"+OK\r\n"
        assert await admin.ask(b"TOPIC", b"CREATE", SPREAD, b"spread", b"%d" % PARTS) == b"+OK\r\n"
        await fleet.publish(TOPICS[1])
        client = DoorClient(fleet.members[0].resp)
        assert await client.ask(b"AUTH", b"bob", token_of("bob")) == b"+OK\r\n"
        for options in ([b"GROUP", b"mail"], [b"GROUP", b"mail", b"MEMBER", b"m1"], []):
            asked = [b"RECEIVEANY", *options, b"TOPICS", SPREAD, OTHER, THIRD]
            assert (await client.ask(*asked)).startswith(NOT_PERMITTED)
            asked = [b"RECEIVEANY", *options, b"TOPICS", SPREAD, THIRD]
            assert (await client.ask(*asked)).startswith(b"-NOPERM")
        assert {group for topic in topics_in(fleet) for group in topic.groups} <= {b"default"}
        assert leased_count(fleet) == 0
        for each in (client, admin):
            each.transport.lose()


# --- clients that leave ---------------------------------------------------------------------------------------

#: Far more iterations of the event loop than a request takes.
MAX_ITERATIONS = 300
LEAVING = {
    "another shard": (b"RECEIVE", OTHER, b"WAIT", b"60"),
    "several shards": (b"RECEIVEANY", b"WAIT", b"60", b"COUNT", b"5", *OF_ALL),
    "topics of another shard": (b"RECEIVEANY", b"WAIT", b"60", b"TOPICS", OTHER),
    "parts": (b"RECEIVE", SPREAD, b"WAIT", b"60", b"COUNT", b"5"),
}


async def leave(leaving: DoorClient, fleet: Fleet) -> None:
    """End the connection of a client; return when all shards know it."""
    leaving.transport.lose()
    number = leaving.connection.session.id

    def has_left() -> bool:
        links = [link.introduction.id for member in fleet.members for link in member.shard.peers._links]
        ends = [each.session.id for member in fleet.members for each in member.resp.shared.linked()]
        return number not in links + ends and leaving.connection not in fleet.members[0].resp.shared.clients()

    await until(has_left)


async def purge(fleet: Fleet) -> None:
    for member in fleet.members:
        for name in member.broker.topics():
            await member.broker.purge(name)


@pytest.mark.parametrize("has_messages", [False, True], ids=["waits", "finds"])
@pytest.mark.parametrize("words", LEAVING.values(), ids=LEAVING)
async def test_a_client_that_leaves_at_any_moment_holds_nothing_but_its_reply(
    client, connect, fleet, words, has_messages
):
    """Interrupt a request after each iteration of the event loop until it is answered."""
    names = [OWN, OTHER, THIRD, *(part_name(SPREAD, number) for number in range(PARTS))]

    async def publish_to_all() -> None:
        await asyncio.gather(*(publish(fleet, name) for name in names))

    is_answered, iterations = False, 0
    while not is_answered:
        assert iterations < MAX_ITERATIONS
        if has_messages:
            await publish_to_all()
        leaving = connect()
        leaving.tell(words)
        if not has_messages:
            await until(lambda: waiting_shards(fleet) != set())
            publishing = asyncio.ensure_future(publish_to_all())
        for _ in range(iterations):
            await asyncio.sleep(0)
        is_answered = leaving.transport.take() != b""
        await leave(leaving, fleet)
        if not has_messages:
            await publishing
        if not is_answered:
            assert is_idle(fleet)
            assert await counted(fleet, "ready") == len(names)
            await purge(fleet)
        iterations += 1
    assert iterations > 5
    assert 0 < leased_count(fleet) <= 5


async def test_messages_that_are_there_return_when_a_client_leaves(connect, fleet, client):
    """Interrupt a request that does not wait."""
    for number in range(2 * PARTS):
        await client.ask(b"PUB", SPREAD, b"%d" % number)
    is_answered, iterations = False, 0
    while not is_answered:
        assert iterations < MAX_ITERATIONS
        leaving = connect()
        leaving.tell((b"RECEIVE", SPREAD, b"COUNT", b"100"))
        for _ in range(iterations):
            await asyncio.sleep(0)
        is_answered = leaving.transport.take() != b""
        await leave(leaving, fleet)
        assert leased_count(fleet) == (2 * PARTS if is_answered else 0)
        iterations += 1
    assert iterations > 5


async def test_messages_that_return_have_the_order_that_they_had(client, connect, fleet):
    for number in range(10):
        await publish(fleet, OTHER, b"%d" % number)
    leaving = connect()
    leaving.tell((b"RECEIVE", OTHER, b"COUNT", b"10", b"WAIT", b"60"))
    await leave(leaving, fleet)
    received = value_of(await client.ask(b"RECEIVE", OTHER, b"COUNT", b"10"))
    assert [payload for _, payload, _ in received] == [b"%d" % number for number in range(10)]


async def test_a_client_that_leaves_has_its_later_commands_carried_out(client, connect, fleet):
    leaving = connect()
    leaving.tell((b"RECEIVE", SPREAD, b"WAIT", b"60"), (b"PUB", OTHER, b"last"))
    await until(lambda: waiting_shards(fleet) == {0, 1, 2})
    leaving.transport.lose()
    broker = fleet.broker_with(OTHER.decode())
    await until(lambda: OTHER in broker.topics() and broker.inspect.depth(OTHER) == 1)
    [message] = await broker.inspect.peek(OTHER, State.READY, 1, None, None)
    assert message.stored.payload == b"last"
    assert is_idle(fleet)


@pytest.mark.parametrize("protocol", [b"2", b"3"])
async def test_replies_without_receipts_are_those_of_autoack(client, fleet, protocol):
    client.tell((b"HELLO", protocol))
    await client.hear()
    for topic in (OTHER, THIRD):
        for words in ((b"a",), (b"b", b"KEY", b"k", b"HEADER", b"h", b"v"), (b"c",)):
            await client.ask(b"PUB", topic, *words)
    leased = await client.ask(b"RECEIVEANY", b"COUNT", b"10", *OF_ALL)
    by_topic = {topic: [receipt for receipt, *_ in messages] for topic, messages in value_of(leased)}
    shown = value_of(without_receipts(leased))
    for topic, receipts in by_topic.items():
        await client.ask(b"BACK", topic, *receipts)
    acked = value_of(await client.ask(b"RECEIVEANY", b"COUNT", b"10", b"AUTOACK", *OF_ALL))

    def contents(answer):
        return sorted((topic, receipt, payload) for topic, messages in answer for receipt, payload, _ in messages)

    assert contents(shown) == contents(acked)
    assert without_receipts(b"-ERR x\r\n") == b"-ERR x\r\n"
    assert without_receipts(b"*0\r\n") == b"*0\r\n"
