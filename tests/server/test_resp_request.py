"""REQUEST and REPLY over RESP: what waits, what it hears, and who settles what."""

import re

import pytest

from miniqueue.server.resp_output import MAX_KEPT_BYTES
from tests.fakes import settle_down
from tests.server.resp_clients import Client, command, serve

OK = b"+OK\r\n"


async def asking(server, *words: bytes) -> Client:
    """Return a client that waits for a reply to a message of t."""
    client = Client(server)
    client.send(b"REQUEST", b"t", b"ask", *words)
    await settle_down()
    assert client.transport.take() == b""
    return client


async def receipt_of(client, topic=b"t") -> bytes:
    (receipt,) = re.findall(rb"\b[0-9a-f]{16}-[0-9]+\r\n\$3\r\nask\r\n", await client.say(b"RECEIVE " + topic))
    return receipt.partition(b"\r")[0]


def test_a_reply_answers_the_request_and_the_commands_behind_it_follow():
    async def body(world, server, client):
        asker = await asking(server, b"TIMEOUT", b"5", b"HEADER", b"timeout", b"x", b"KEY", b"k")
        asker.send(b"PING")
        reply = await client.say(b"RECEIVE t")
        assert b"$8\r\nreply_to\r\n" in reply
        assert b"$7\r\ntimeout\r\n$1\r\nx\r\n" in reply
        receipt = re.search(rb"[0-9a-f]{16}-[0-9]+", reply)[0]
        client.send(b"REPLY", b"t", receipt, b"two words")
        await settle_down()
        assert client.transport.take() == OK
        assert asker.transport.take() == b"$9\r\ntwo words\r\n+PONG\r\n"
        assert (await client.say(b"REPLY t %b again" % receipt)).startswith(b"-NOLEASE ")

    serve(body)


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (b"TIMEOUT 0", b"-BADDELAY a timeout is a number of seconds, more than 0 and at most 3600\r\n"),
        (b"TIMEOUT 3601", b"-BADDELAY "),
        (b"TIMEOUT x", b"-BADDELAY "),
        (b"TIMEOUT", b"-BADOPTION the option timeout needs a value\r\n"),
        (b"HEADER timeout", b"-BADOPTION "),
        (b"KEY", b"-BADOPTION "),
        (b"WHAT 1", b"-BADOPTION "),
        (b"DELAY 1", b"-BADOPTION a request is published at once and for itself"),
        (b"DEDUP 1", b"-BADOPTION "),
        (b"TIMEOUT 0.001", b"-TIMEOUT Nobody has replied in time"),
    ],
)
def test_what_is_wrong_with_a_request_is_told(words, reply):
    async def body(world, server, client):
        client.send(b"REQUEST", b"t", b"ask", *words.split())
        while not (told := client.transport.take()):
            await settle_down()
        assert told.startswith(reply)
        assert await client.say(b"PING") == b"+PONG\r\n"

    serve(body)


def test_what_is_wrong_with_a_reply_is_told():
    async def body(world, server, client):
        await client.say(b"PUBLISH t ask")
        receipt = await receipt_of(client)
        assert await client.say(b"REPLY t %b x" % receipt) == (
            b"-NOREQUEST The message asks for no reply; it is still leased\r\n"
        )
        assert await client.say(b"ACK t " + receipt) == OK
        assert (await client.say(b"REPLY t 1 x")).startswith(b"-NOLEASE ")
        assert (await client.say(b"REPLY a/b 1 x")).startswith(b"-BADTOPIC ")

    serve(body)


def test_commands_after_a_request_of_a_client_that_sends_no_more_are_carried_out():
    async def body(world, server, client):
        asker = await asking(server)
        asker.send(b"PING")
        asker.send(b"REQUEST", b"t", b"second")
        asker.send(b"RECEIVE", b"u", b"WAIT", b"60")
        assert asker.connection.eof_received()
        await settle_down()
        first, pong, second, received = asker.transport.take().split(b"\r\n")[:4]
        assert (pong, received) == (b"+PONG", b"*0")
        assert first.startswith(b"-TIMEOUT ")
        assert second == b"-TIMEOUT the client has closed its side of the connection; nothing was published"
        assert asker.transport.is_closed
        assert world.broker.stats()[b"t"].published == 1

    serve(body)


@pytest.mark.parametrize("end", ["lose", "end", "end TLS", "too much behind it"])
def test_who_leaves_is_not_waited_for_and_the_replier_hears_so(end):
    async def body(world, server, client):
        asker = await asking(server)
        receipt = await receipt_of(client)
        if end == "lose":
            asker.transport.lose()
        elif end == "end":  # as the kernel tells of a socket that was closed
            assert asker.connection.eof_received()
        elif end == "end TLS":
            asker.transport.extra["ssl_object"] = object()
            assert not asker.connection.eof_received()
        else:
            asker.connection.data_received(command(b"PING") * (MAX_KEPT_BYTES // 14 + 1))
        await settle_down()
        assert asker.transport.take().startswith(b"" if end == "lose" else b"-TIMEOUT ")
        assert await client.say(b"REPLY t %b x" % receipt) == (
            b"-GONE Nobody waits for the reply any more; the message is acknowledged\r\n"
        )
        assert world.broker.stats()[b"t"].acknowledged == 1

    serve(body)


def test_a_request_that_waits_for_room_asks_when_there_is_some(monkeypatch):
    async def body(world, server, client):
        monkeypatch.setattr(type(world.broker.crowd), "is_there", property(lambda crowd: crowd.is_full), raising=False)
        world.broker.crowd.is_full = True
        client.send(b"REQUEST", b"t", b"ask")
        await settle_down()
        world.broker.crowd.is_full = False
        await settle_down()
        other = Client(server)
        assert await other.say(b"REPLY t %b x" % await receipt_of(other)) == OK
        assert client.transport.take() == b"$1\r\nx\r\n"

    serve(body)


def test_a_request_is_refused_when_waiting_for_room_has_been_in_vain(monkeypatch):
    async def body(world, server, client):
        acts = []
        monkeypatch.setattr(type(world.broker.crowd), "is_there", True)
        monkeypatch.setattr(world.broker.crowd, "when_gone", acts.append)
        client.send(b"REQUEST", b"a/b", b"ask")
        client.send(b"PING")
        (act,) = acts
        act()
        await settle_down()
        told = client.transport.take()
        assert told.startswith(b"-BADTOPIC ")
        assert told.endswith(b"+PONG\r\n")

    serve(body)


def test_the_end_of_the_server_answers_who_waits():
    async def body(world, server, client):
        asker = await asking(server)
        server.drain()
        assert asker.transport.take().startswith(b"-")
        assert asker.transport.is_closed

    serve(body)


def test_a_stream_replies():
    async def body(world, server, client):
        one, two = await asking(server), await asking(server)
        assert await client.say(b"SUBSCRIBE t") == b"$3\r\nask\r\n"
        assert await client.say(b"REPLY") == b"-ERR invalid command\r\n"
        assert await client.say(b"REPLY a b") == b"-ERR invalid command\r\n"
        assert await client.say(b"REPLY first") == OK + b"$3\r\nask\r\n"
        two.transport.lose()
        assert (await client.say(b"REPLY second")).startswith(b"-GONE ")
        assert await client.say(b"REPLY third") == b"-NOLEASE No message is outstanding\r\n"
        assert one.transport.take() == b"$5\r\nfirst\r\n"
        await world.publish(b"t", b"no question")
        assert client.transport.take() == b"$11\r\nno question\r\n"
        assert (await client.say(b"REPLY x")).startswith(b"-NOREQUEST ")
        assert await client.say(b"ACK") == OK
        assert world.broker.stats()[b"t"].acknowledged == 3

    serve(body)


def test_a_stream_with_prefetch_replies_by_receipt():
    async def body(world, server, client):
        one, two = await asking(server), await asking(server)
        told = await client.say(b"SUBSCRIBE t PREFETCH 2")
        assert told.count(b"reply_to") == 2
        assert await client.say(b"REPLY 2 second") == OK
        assert (
            await client.say(b"REPLY 2 again") == b"-NOLEASE 1 of 1 receipts belong to no message outstanding here\r\n"
        )
        assert (await client.say(b"REPLY second")) == b"-ERR invalid command\r\n"
        assert await client.say(b"REPLY 1 first") == OK
        assert (one.transport.take(), two.transport.take()) == (b"$5\r\nfirst\r\n", b"$6\r\nsecond\r\n")

    serve(body)
