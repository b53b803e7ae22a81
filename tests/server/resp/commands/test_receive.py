"""RECEIVE over RESP: what waits and what does not, who leaves while it waits, and settling by receipt."""

import asyncio
import re

import pytest

from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors.requests import OutcomeUnknownError
from miniqueue.server.resp.connection import MAX_KEPT_BYTES
from miniqueue.server.resp.server import RespServer
from miniqueue.wire import resp_replies as replies
from tests.fakes import settle_down
from tests.server.resp.clients import PARAMETERS, Client, command

OK = b"+OK\r\n"
NOTHING = b"*0\r\n"
REFUSED = b"-NOLEASE the receipt belongs to no message that is leased now\r\n"
REFUSED_IN_ARRAY = b"$60\r\nNOLEASE the receipt belongs to no message that is leased now\r\n"


def receipts_in(reply: bytes) -> list[bytes]:
    return re.findall(rb"\b[0-9a-f]{16}-[0-9]+\b", reply)


def attributes(*words: bytes | int) -> bytes:
    return b"".join(replies.integer(word) if isinstance(word, int) else replies.bulk(word) for word in words)


async def waiting(server, client, *options: bytes) -> Client:
    """Make `client` wait for a message of t, and return it."""
    client.send(b"RECEIVE", b"t", b"WAIT", b"60", *options)
    await settle_down()
    assert client.transport.take() == b""
    return client


async def test_in_version_3_what_is_known_of_a_message_is_a_map(world, client):
    await world.publish(b"t", b"hello")
    assert (await client.say(b"HELLO 3")).startswith(b"%")
    known = attributes(b"id", b"0-0", b"published_at_ms", 1_700_000_000_000, b"deliveries", 1)
    assert (await client.say(b"RECEIVE t")).endswith(b"$5\r\nhello\r\n%3\r\n" + known)


async def test_an_option_that_is_unknown_or_there_twice_is_refused(client):
    for line in (b"RECEIVE t GRUP audit", b"RECEIVE t COUNT 1 COUNT 2", b"RECEIVE t WAIT"):
        assert (await client.say(line)).startswith(b"-ERR syntax error in RECEIVE option "), line


async def test_any_connection_settles(world, server, client):
    await world.publish(b"t", b"a", b"b", b"c", b"d", b"e")
    a, b, c, d, e = receipts_in(await client.say(b"RECEIVE t COUNT 5"))
    client.transport.lose()
    other = Client(server)
    assert await other.say(b"ACK t " + a) == OK
    assert await other.say(b"ACK t " + a) == REFUSED
    assert await other.say(b"ack t %b %b" % (b, b)) == b"*2\r\n" + OK + REFUSED_IN_ARRAY
    assert await other.say(b"EXTEND t %b %b 60" % (c, d)) == b"*2\r\n" + OK * 2
    assert await other.say(b"DACK t %b 0.5" % c) == OK
    assert await other.say(b"REJECT t %b broken" % d) == OK
    assert await other.say(b"BACK t " + e) == OK
    stats = world.broker.stats()[b"t"]
    assert (stats.acknowledged, stats.moved, stats.delayed, stats.ready, stats.leased) == (2, 1, 1, 1, 0)


async def test_a_settle_with_sync_is_answered_after_its_commit_and_delays_the_replies_after_it(world, client):
    await world.publish(b"t", b"a", b"b", b"c")
    a, b, c = receipts_in(await client.say(b"RECEIVE t COUNT 3"))
    world.store.may_write.clear()
    for words in ((b"ACK", b"t", a, b"Sync"), (b"NACK", b"t", b, b"what", b"sync"), (b"ACK", b"t", c), (b"PING",)):
        client.send(*words)
    await settle_down()
    assert client.transport.take() == b""
    assert (world.broker.stats()[b"t"].acknowledged, world.broker.stats()[b"t"].ready) == (2, 1)  # at once
    synced = world.store.sync_count
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == OK + b"*2\r\n" + OK + REFUSED_IN_ARRAY + OK + b"+PONG\r\n"
    assert world.store.sync_count == synced + 1


async def test_sync_stands_before_the_seconds_and_before_the_reason_which_can_be_any_text(world, client):
    await world.publish(b"t", b"a", b"b", b"c")
    a, b, c = receipts_in(await client.say(b"RECEIVE t COUNT 3"))
    synced = world.store.sync_count
    assert await client.say(b"DACK t %b SYNC 60" % a) == OK
    assert await client.say(b"REJECT t %b SYNC SYNC" % b) == OK
    assert world.store.sync_count == synced + 2
    assert await client.say(b"REJECT t %b SYNC" % c) == OK
    assert world.store.sync_count == synced + 2
    assert (await client.say(b"PEEK t STATE dead")).count(b"$4\r\nSYNC\r\n") == 2


async def test_a_sync_that_nothing_would_be_synced_for_is_a_receipt(world, client):
    await world.publish(b"t", b"a")
    (a,) = receipts_in(await client.say(b"RECEIVE t"))
    synced = world.store.sync_count
    assert await client.say(b"EXTEND t %b SYNC 60" % a) == b"*2\r\n" + OK + REFUSED_IN_ARRAY
    assert (await client.say(b"REJECT t SYNC broken")).startswith(b"-NOLEASE ")
    assert (await client.say(b"DACK t %b 60 SYNC" % a)).startswith(b"-BADDELAY ")
    assert world.store.sync_count == synced


async def test_a_waiting_receive_holds_its_own_connection_and_no_other(server, client):
    await waiting(server, client)
    client.send(b"PING")
    client.send(b"RECEIVE", b"t")
    other = Client(server)
    assert await other.say(b"PING") == b"+PONG\r\n"
    assert await other.say(b"MPUBLISH t a b") == b"*2\r\n$3\r\n0-0\r\n$3\r\n0-1\r\n"
    await settle_down()
    first, pong, second = re.split(rb"(\+PONG\r\n)", client.transport.take())
    assert (b"\r\na\r\n" in first, pong, b"\r\nb\r\n" in second) == (True, b"+PONG\r\n", True)


async def test_a_wait_ends(client):
    assert await client.say(b"RECEIVE t WAIT 0") == NOTHING
    client.send(b"RECEIVE", b"t", b"WAIT", b"0.01")
    while not client.transport.written:
        await settle_down()
    assert client.transport.take() == NOTHING


@pytest.mark.parametrize("leave", [
    lambda client: client.transport.lose(),
    lambda client: client.connection.eof_received(),
    lambda client: client.connection.leave(),
], ids=["lost", "half closed", "sent away"])  # fmt: skip
async def test_who_leaves_while_it_waits_swallows_nothing(leave, world, server, client):
    await waiting(server, client)
    leave(client)
    assert world.broker.stats() == {}
    await world.publish(b"t", b"a")
    await settle_down()
    assert world.broker.stats()[b"t"].ready == 1


async def test_a_client_that_has_said_all_is_answered_and_closed(server, client):
    await waiting(server, client)
    client.send(b"PING")
    assert client.connection.eof_received()
    await settle_down()
    assert client.transport.take() == NOTHING + b"+PONG\r\n"
    assert client.transport.is_closed


async def test_a_receive_that_begins_when_its_client_has_said_all_does_not_wait(world, server, client):
    await waiting(server, client)
    client.send(b"RECEIVE", b"t", b"WAIT", b"60")
    client.send(b"PING")
    client.connection.eof_received()
    await settle_down()
    assert client.transport.take() == NOTHING + NOTHING + b"+PONG\r\n"
    assert client.transport.is_closed
    assert world.broker.stats() == {}


async def test_a_receive_that_begins_when_its_client_has_said_all_gets_what_there_is(world, server, client):
    await waiting(server, client)
    await world.publish(b"u", b"a")
    client.send(b"RECEIVE", b"u", b"WAIT", b"60", b"AUTOACK")
    client.connection.eof_received()
    while not client.transport.is_closed:
        await settle_down()
    assert b"$1\r\na\r\n" in client.transport.take()


async def reading(world, *words: bytes, is_tls: bool = False) -> Client:
    """Return a client whose command waits for messages to be read from the store."""
    await world.broker.admin.create(b"t", {"partitions": 2}).wait()
    for number in range(4):
        await world.broker.publish(b"t", [b"%d" % number], None, number % 2).commit.wait()
    await world.restart()
    world.store.may_scan.clear()
    client = Client(RespServer(world.broker, PARAMETERS), is_tls=is_tls)
    client.send(*words)
    await settle_down()
    return client


@pytest.mark.parametrize("wait", [b"0", b"60"])
@pytest.mark.usefixtures("client")
async def test_a_client_that_has_said_all_gets_what_is_being_read_for_it(wait, world):
    client = await reading(world, b"RECEIVE", b"t", b"COUNT", b"9", b"WAIT", wait)
    client.send(b"PING")
    assert client.connection.eof_received()
    await settle_down()
    assert (client.transport.take(), client.transport.is_closed) == (b"", False)
    world.store.may_scan.set()
    while not client.transport.is_closed:
        await settle_down()
    replied = client.transport.take()
    assert sorted(re.findall(rb"\$1\r\n(\d)\r\n", replied)) == [b"0", b"1", b"2", b"3"]
    assert replied.endswith(b"+PONG\r\n")
    assert world.broker.stats()[b"t"].leased == 4


@pytest.mark.usefixtures("client")
async def test_get_of_a_client_that_has_said_all_shows_the_message_and_returns_it(world):
    client = await reading(world, b"GET", b"t")
    client.connection.eof_received()
    world.store.may_scan.set()
    while not client.transport.is_closed:
        await settle_down()
    assert client.transport.take() in (b"$1\r\n0\r\n", b"$1\r\n1\r\n")  # whichever partition is read first
    assert world.broker.stats()[b"t"].leased == 0


@pytest.mark.usefixtures("client")
async def test_a_client_that_is_gone_while_messages_are_read_for_it_swallows_nothing(world):
    client = await reading(world, b"RECEIVE", b"t", b"COUNT", b"9", b"WAIT", b"60")
    client.connection.eof_received()
    client.transport.lose()
    world.store.may_scan.set()
    await settle_down()
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.leased) == (4, 0)


@pytest.mark.usefixtures("client")
async def test_over_tls_a_client_that_has_said_all_is_answered_at_once(world):
    client = await reading(world, b"RECEIVE", b"t", b"WAIT", b"60", is_tls=True)
    assert not client.connection.eof_received()
    await settle_down()
    assert client.transport.take() == NOTHING
    assert client.transport.is_closed
    world.store.may_scan.set()


async def test_a_connection_that_waits_is_listened_to(client):
    client.connection.data_received(command(b"PING") * 1000 + command(b"RECEIVE", b"t", b"WAIT", b"60"))
    await settle_down()
    assert client.transport.take() == b"+PONG\r\n" * 1000
    assert client.transport.is_reading()
    client.connection.pause_writing()
    assert client.transport.is_reading()


async def test_with_too_much_behind_it_it_waits_no_longer(server, client):
    await waiting(server, client)
    client.connection.data_received(command(b"ECHO", bytes(MAX_KEPT_BYTES)))
    await settle_down()
    assert client.transport.take().startswith(NOTHING + b"$65536\r\n")
    assert client.transport.is_reading()


async def test_at_shutdown_those_who_wait_are_answered(server, client):
    await waiting(server, client)
    server.drain()
    await settle_down()
    assert client.transport.take() == NOTHING
    assert client.transport.is_closed


async def test_in_a_stream_there_is_no_receive(client):
    assert await client.say(b"SUBSCRIBE t") == b""
    assert await client.say(b"RECEIVE t") == b"-ERR invalid command\r\n"


async def test_as_many_receipts_as_a_prefetch_has(world, client):
    await world.publish(b"t", *[b"%d" % n for n in range(10_000)])
    receipts = receipts_in(await client.say(b"RECEIVE t COUNT 10000"))
    assert len(receipts) == len(set(receipts)) == 10_000
    client.send(b"ACK", b"t", *receipts)
    await settle_down()
    assert client.transport.take() == b"*10000\r\n" + OK * 10_000
    assert world.broker.stats()[b"t"].acknowledged == 10_000


async def test_a_pattern_without_its_word_is_a_syntax_error(client):
    for words in (b"PATTERN", b"PATTERN jobs.* PATTERN", b"COUNT 2 PATTERN jobs.* pattern"):
        assert await client.say(b"RECEIVEANY " + words) == b"-ERR syntax error in RECEIVE option 'PATTERN'\r\n"


async def leased(world, client, count: int) -> list[bytes]:
    """Return the receipts of so many messages, the last one first: to settle each of them cuts a lease."""
    await world.publish(b"t", *[b"x"] * count)
    return receipts_in(await client.say(b"RECEIVE t COUNT %d" % count))[::-1]


async def test_while_very_many_messages_are_settled_other_clients_go_on_and_commands_after_it_wait(
    world, server, client
):
    receipts, other = await leased(world, client, 1000), Client(server)
    pipeline = command(b"ACK", b"t", *receipts) + command(b"PING")
    client.connection.data_received(pipeline)
    while not (acknowledged := world.broker.stats()[b"t"].acknowledged):  # noqa: ASYNC110 - each iteration counts
        await asyncio.sleep(0)
    other.send(b"PING")
    assert (acknowledged < 1000, other.transport.take(), client.transport.take()) == (True, b"+PONG\r\n", b"")
    await settle_down()
    assert client.transport.take() == b"*1000\r\n" + OK * 1000 + b"+PONG\r\n"
    assert world.broker.stats()[b"t"].acknowledged == 1000


@pytest.mark.parametrize("leaves", ["lose", "eof"])
@pytest.mark.parametrize("acknowledged", [0, 1, 500])
async def test_very_many_messages_are_settled_even_if_the_client_leaves_meanwhile(leaves, acknowledged, world, client):
    client.send(b"ACK", b"t", *await leased(world, client, 1000))
    while world.broker.stats()[b"t"].acknowledged < acknowledged:  # noqa: ASYNC110 - each iteration counts
        await asyncio.sleep(0)
    if leaves == "lose":
        client.transport.lose()
    else:
        client.connection.eof_received()
    await settle_down()
    assert world.broker.stats()[b"t"].acknowledged == 1000
    assert client.transport.take() == (b"" if leaves == "lose" else b"*1000\r\n" + OK * 1000)


MANY = 200


async def long_reply(world, client) -> None:
    """Send a RECEIVE whose reply is made in turns, and return while it is."""
    for number in range(MANY):
        world.broker.publish_with(b"t", b"x", PublishOptions(key=b"%d" % number))
    await world.commit()
    client.send(*b"RECEIVE t COUNT 200".split())
    while world.broker.stats()[b"t"].leased < MANY:  # noqa: ASYNC110 - a reply of two turns or more is still being made
        await asyncio.sleep(0)
    assert client.transport.take() == b""


async def test_a_long_reply_is_made_in_turns_and_the_next_command_waits_for_it(world, client):
    await long_reply(world, client)
    client.send(b"PING")
    await settle_down()
    reply = client.transport.take()
    assert reply.startswith(b"*%d\r\n" % MANY)
    assert reply.endswith(b"+PONG\r\n")
    assert len(receipts_in(reply)) == MANY


async def test_a_client_that_leaves_while_its_reply_is_made_returns_the_messages(world, client):
    await long_reply(world, client)
    client.transport.lose()
    await settle_down()
    stats = world.broker.stats()[b"t"]
    assert (stats.ready, stats.leased) == (MANY, 0)


async def test_the_reply_is_complete_even_if_the_topic_is_made_again_meanwhile(world, client):
    await long_reply(world, client)
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"new")
    await settle_down()
    assert len(receipts_in(client.transport.take())) == MANY
    assert world.broker.stats()[b"t"].ready == 1


async def test_the_reply_is_complete_even_if_the_store_fails_meanwhile(world, client):
    await long_reply(world, client)
    world.store.fail_writes.add(world.store.write_count + 1)
    with pytest.raises(OutcomeUnknownError):
        await world.publish(b"t", b"lost")
    await settle_down()
    assert len(receipts_in(client.transport.take())) == MANY
