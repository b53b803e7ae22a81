"""SUBSCRIBE to a spread topic at the doors of three shards: one stream for the client, whatever its parts do."""

from collections.abc import Callable

import hiredis
import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message.parts import part_name
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, Fleet, fleet_in
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.clients import DoorClient

TOPIC = TOPICS[1].encode()
PARTS = 5


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    """A client for which the topic has been created."""
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


def value_of(reply: bytes):
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


async def heard(client: DoorClient, count: int) -> list:
    return [value_of(reply) for reply in await client.hear(count)]


async def publish(client: DoorClient, count: int) -> list[bytes]:
    """Publish messages, one to each part in turn; return their payloads."""
    payloads = [b"%d" % number for number in range(count)]
    for payload in payloads:
        assert (await client.ask(b"PUB", TOPIC, payload)).startswith(b"$")
    return payloads


async def states(fleet: Fleet, state: State) -> list[bytes]:
    """Return the messages of all parts that are in a state."""
    found: list[bytes] = []
    for number in range(PARTS):
        part = part_name(TOPIC, number)
        messages = await fleet.broker_with(part.decode()).inspect.peek(part, state, 100, None, None)
        found += [message.stored.payload for message in messages]
    return found


def leased_count(fleet: Fleet) -> int:
    """Return how many messages all consumers of the parts hold."""
    count = 0
    for number in range(PARTS):
        part = part_name(TOPIC, number)
        topic = fleet.broker_with(part.decode())._engine.topics.by_name.get(part)
        if topic is not None:
            count += sum(cursor.leased_count for group in topic.groups.values() for cursor in group.cursors)
    return count


async def test_a_stream_delivers_the_messages_of_all_parts_and_settles_them(client, connect):
    stream = connect(2)
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    payloads = await publish(client, 4 * PARTS)
    received = await heard(stream, len(payloads))
    assert sorted(payload for _, payload, _ in received) == sorted(payloads)
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % len(payloads)
    receipts = [receipt for receipt, _, _ in received]
    stream.tell((b"ACK", receipts[0]), (b"BACK", receipts[1]), (b"PING",), (b"ACK", *receipts[2:]))
    replies = await stream.hear(4)  # the message that has returned comes again, and can come between two replies
    deliveries = [reply for reply in replies if reply.startswith(b"*")]
    assert [reply for reply in replies if reply not in deliveries][:3] == [b"+OK\r\n", b"+OK\r\n", b"+PONG\r\n"]
    if not deliveries:
        deliveries = await stream.hear()
    else:
        assert await stream.hear() == [b"+OK\r\n"]
    again, payload, _ = value_of(deliveries[0])
    assert payload == received[1][1]
    assert await stream.ask(b"ACK", again) == b"+OK\r\n"
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"


async def test_a_prefetch_is_divided_among_the_parts(client, connect, fleet):
    await publish(client, 6 * PARTS)
    stream = connect(2)
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"13"))
    receipts = [receipt for receipt, _, _ in await heard(stream, 13)]
    assert leased_count(fleet) == 13
    stream.tell((b"ACK", *receipts))
    replies = await stream.hear(14)
    assert replies.count(b"+OK\r\n") == 1
    assert leased_count(fleet) == 13


@pytest.mark.parametrize("prefetch", [1, 3])
async def test_a_client_that_wants_fewer_than_there_are_parts_has_no_more(client, connect, fleet, prefetch):
    payloads = await publish(client, 3 * PARTS)
    stream = connect()
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"%d" % prefetch))
    held = await heard(stream, prefetch)
    received = [payload for _, payload, _ in held]
    while len(received) < len(payloads):
        stream.tell((b"ACK", held.pop(0)[0]), (b"PING",))
        replies = await stream.hear(3)
        assert sorted(reply[:1] for reply in replies) == [b"*", b"+", b"+"]
        held += [value_of(reply) for reply in replies if reply.startswith(b"*")]
        received.append(held[-1][1])
    assert sorted(received) == sorted(payloads)
    assert stream.transport.take() == b""
    await until(lambda: leased_count(fleet) == prefetch)


async def test_a_stream_without_receipts_has_one_message_at_a_time(client, connect):
    payloads = await publish(client, 2 * PARTS)
    stream = connect(1)
    stream.tell((b"SUBSCRIBE", TOPIC))
    received = await heard(stream, 1)
    for word in (b"ACK", b"BACK", b"NACK"):
        stream.tell((word,))
        ok, delivery = await stream.hear(2)
        assert ok == b"+OK\r\n"
        received.append(value_of(delivery))
    stream.tell((b"ACK", TOPIC))  # clients of OPQ name the topic
    ok, delivery = await stream.hear(2)
    received.append(value_of(delivery))
    assert (await stream.ask(b"ACK", b"17")).startswith(b"-ERR invalid command")
    while len(set(received)) < len(payloads):
        stream.tell((b"ACK",))
        ok, delivery = await stream.hear(2)
        received.append(value_of(delivery))
    assert set(received) == set(payloads)


async def test_commands_without_receipts_that_are_sent_together_settle_one_message_each(client, connect):
    payloads = await publish(client, 3)
    stream = connect(1)
    stream.tell((b"SUBSCRIBE", TOPIC))
    first = await heard(stream, 1)
    stream.tell((b"ACK",), (b"ACK",), (b"ACK",), (b"ACK",), (b"PING",))
    ok, second, ok_too, third, ok_again, refusal, pong = await stream.hear(7)
    assert [ok, ok_too, ok_again, refusal[:8], pong] == [b"+OK\r\n"] * 3 + [b"-NOLEASE", b"+PONG\r\n"]
    assert sorted([*first, value_of(second), value_of(third)]) == payloads


async def test_a_stream_without_receipts_that_has_no_message_settles_none(client):
    client.tell((b"SUBSCRIBE", TOPIC), (b"ACK",), (b"DACK", b"60"))
    assert [reply[:8] for reply in await client.hear(2)] == [b"-NOLEASE"] * 2


@pytest.mark.parametrize("words", [(b"DACK", b"3600"), (b"DACK", TOPIC, b"60"), (b"NACK", b"DELAY", b"60")])
async def test_a_stream_without_receipts_delays_its_message(client, fleet, words):
    await publish(client, 1)
    client.tell((b"SUBSCRIBE", TOPIC))
    assert await heard(client, 1) == [b"0"]
    assert (await client.ask(b"DACK", b"-1")).startswith(b"-BADDELAY")
    assert await client.ask(*words) == b"+OK\r\n"
    assert await states(fleet, State.DELAYED) == [b"0"]


@pytest.mark.parametrize("way", ["lost", "QUIT", "RESET", "half"])
async def test_the_end_of_a_stream_returns_what_all_parts_hold(client, connect, fleet, way):
    payloads = await publish(client, 4 * PARTS)
    stream = connect()
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    receipts = [receipt for receipt, _, _ in await heard(stream, len(payloads))]
    if way == "lost":
        stream.tell((b"ACK", *receipts[:10]))
        stream.transport.lose()
    elif way == "half":
        stream.tell((b"ACK", *receipts[:10]), (b"ACK", receipts[0]))
        stream.connection.eof_received()
        assert [reply[:8] for reply in await stream.hear(2)] == [b"+OK\r\n", b"-NOLEASE"]
        await until(lambda: stream.transport.is_closed)
    else:
        stream.tell((b"ACK", *receipts[:10]), (way.encode(),))
        assert await stream.hear(2) == [b"+OK\r\n", b"+RESET\r\n" if way == "RESET" else b"+OK\r\n"]
    await until(lambda: leased_count(fleet) == 0)
    assert len(await states(fleet, State.READY)) == len(payloads) - 10
    if way == "RESET":
        assert await stream.ask(b"LEN", TOPIC) == b":%d\r\n" % (len(payloads) - 10)
        stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
        assert len(await stream.hear(10)) == 10


async def test_a_stream_ends_with_the_connection_when_a_shard_ends(client, connect, fleet):
    await publish(client, PARTS)
    stream = connect()
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    await stream.hear(PARTS)
    fleet.lose(2)
    await until(lambda: stream.transport.is_closed)
    await until(lambda: leased_count(fleet) == 0)
    assert (await client.ask(b"SUBSCRIBE", TOPIC)).startswith(b"-TRYAGAIN")
    assert await client.ask(b"PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((b"PREFETCH", b"0"), b"-BADPREFETCH"),
        ((b"PREFETCH",), b"-ERR invalid number of args"),
        ((b"GROUP", b"a b"), b"-BADGROUP"),
        ((b"PREFETCH", b"9", b"SESSION", b"5"), b"-ERR session without a member"),
        ((b"PREFETCH", b"9", b"PREFETCH", b"9"), b"-ERR invalid number of args"),
    ],
)
async def test_a_stream_that_is_refused_leaves_the_connection_as_it_was(client, words, code):
    refusal = await client.ask(b"SUBSCRIBE", TOPIC, *words)
    assert refusal.startswith(code)
    assert b"\x1f" not in refusal
    assert await client.ask(b"PUB", TOPIC, b"x") != b""
    client.tell((b"SUB", TOPIC, b"PREFETCH", b"9"))
    assert (await heard(client, 1))[0][1] == b"x"


async def test_unknown_receipts_of_several_parts_are_counted_together(client):
    await publish(client, 2 * PARTS)
    client.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    receipts = [receipt for receipt, _, _ in await heard(client, 2 * PARTS)]
    assert await client.ask(b"ACK", *receipts[::2]) == b"+OK\r\n"
    assert await client.ask(b"ACK", *receipts) == (
        b"-NOLEASE 5 of 10 receipts belong to no message outstanding here\r\n"
    )
    assert await client.ask(b"ACK", b"17", b"x", receipts[0]) == (
        b"-NOLEASE 3 of 3 receipts belong to no message outstanding here\r\n"
    )
    assert (await client.ask(b"ACK")).startswith(b"-NOLEASE")
    assert (await client.ask(b"LEN", TOPIC)).startswith(b"-ERR invalid command")
    assert [(await client.ask(word))[:11] for word in (b"MULTI", b"LEASES")] == [b"-CROSSSHARD"] * 2


async def test_a_stream_answers_requests(client, connect):
    worker, plain = connect(1), connect(2)
    worker.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"10"))
    for number in range(PARTS):
        client.tell((b"REQUEST", TOPIC, b"%d" % number))
        [[receipt, payload, _]] = await heard(worker, 1)
        assert await worker.ask(b"REPLY", receipt, b"re: " + payload) == b"+OK\r\n"
        assert await client.hear() == [b"$5\r\nre: %d\r\n" % number]
    assert await worker.ask(b"RESET") == b"+RESET\r\n"
    plain.tell((b"SUBSCRIBE", TOPIC))
    client.tell((b"REQUEST", TOPIC, b"plain"))
    assert await heard(plain, 1) == [b"plain"]
    assert await plain.ask(b"REPLY", b"yes") == b"+OK\r\n"
    assert await client.hear() == [b"$3\r\nyes\r\n"]


async def test_a_stream_is_listed_by_the_name_of_its_topic(client, connect):
    stream = connect(1)
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"10", b"GROUP", b"mail"))
    await publish(client, PARTS)
    await stream.hear(PARTS)
    lines = value_of(await client.ask(b"CLIENT", b"LIST")).splitlines()
    [line] = [line for line in lines if b"sub=1" in line]
    assert b" topic=%b group=mail " % TOPIC in line
    assert b" leased=%d " % PARTS in line


async def test_a_user_needs_the_right_to_consume_the_topic(tmp_path):
    ada, bob = user("ada", admin=("*",)), user("bob", publisher=("*",), subscriber=("other",))
    async with fleet_in(tmp_path, sign_in_for(ada, bob)) as fleet:
        clients = [DoorClient(fleet.members[door].resp) for door in range(COUNT)]
        for client, name in zip(clients, ("ada", "bob", "ada"), strict=True):
            assert await client.ask(b"AUTH", name.encode(), token_of(name)) == b"+OK\r\n"
        assert await clients[0].ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
        assert (await clients[1].ask(b"SUBSCRIBE", TOPIC, b"PREFETCH", b"10")).startswith(b"-NOPERM")
        clients[2].tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"10"))
        await clients[1].ask(b"PUB", TOPIC, b"x")
        assert (await heard(clients[2], 1))[0][1] == b"x"
        for client in clients:
            client.transport.lose()


async def test_a_client_that_leaves_while_it_subscribes_holds_nothing(client, connect, fleet):
    await publish(client, PARTS)
    for _ in range(3):
        stream = connect()
        stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"10"))
        stream.transport.lose()
    stream = connect()
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"10"))
    received = [await heard(stream, 1) for _ in range(PARTS)]
    assert len(received) == PARTS
    assert leased_count(fleet) == PARTS


async def test_a_client_that_does_not_read_is_not_sent_more(client, connect):
    stream = connect()
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    await client.ask(b"PUB", TOPIC, b"first")
    await stream.hear()
    stream.connection.pause_writing()
    await publish(client, PARTS)
    assert stream.transport.take() == b""
    stream.connection.resume_writing()
    assert len(await stream.hear(PARTS)) == PARTS


@pytest.mark.parametrize(
    "words", [(b"TOPIC", b"SET", TOPIC, b"spread", b"8"), (b"TOPIC", b"DELETE", TOPIC)], ids=["grows", "is deleted"]
)
@pytest.mark.parametrize("door", range(COUNT))
async def test_a_stream_ends_when_the_topic_gets_other_parts(client, connect, fleet, words, door):
    await publish(client, PARTS)
    stream = connect(door)
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    [[receipt, _, _], *_] = await heard(stream, PARTS)
    stream.tell((b"ACK", receipt))
    assert await client.ask(*words) == b"+OK\r\n"
    assert await stream.hear() == [b"+OK\r\n"]
    await until(lambda: stream.transport.is_closed)
    await until(lambda: leased_count(fleet) == 0)
    again = connect(door)
    again.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    if words[1] == b"SET":
        assert len(await again.hear(PARTS - 1)) == PARTS - 1


async def test_other_settings_do_not_end_a_stream(client, connect):
    stream = connect(2)
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100"))
    assert await stream.ask(b"PING") == b"+PONG\r\n"
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"max_messages", b"99") == b"+OK\r\n"
    await publish(client, 1)
    assert (await heard(stream, 1))[0][1] == b"0"
