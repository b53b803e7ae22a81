"""REQUEST and REPLY over RESP: what waits, what it hears, and who settles what."""

import re

import pytest

from miniqueue.server.resp.connection import MAX_KEPT_BYTES
from tests.fakes import settle_down
from tests.server.resp.clients import Client, command

OK = b"+OK\r\n"


async def asking(server, *words: bytes, is_tls: bool = False) -> Client:
    """Return a client that waits for a reply to a message of t."""
    client = Client(server, is_tls=is_tls)
    client.send(b"REQUEST", b"t", b"ask", *words)
    await settle_down()
    assert client.transport.take() == b""
    return client


async def receipt_of(client, topic=b"t") -> bytes:
    (receipt,) = re.findall(rb"\b[0-9a-f]{16}-[0-9]+\r\n\$3\r\nask\r\n", await client.say(b"RECEIVE " + topic))
    return receipt.partition(b"\r")[0]


async def test_a_reply_answers_the_request_and_the_commands_behind_it_follow(server, client):
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


@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (
            b"TIMEOUT 0",
            b"-BADDELAY a timeout is a number of seconds, or a duration such as 1h30m, more than 0 and at most ",
        ),
        (b"TIMEOUT 3601", b"-BADDELAY "),
        (b"TIMEOUT x", b"-BADDELAY "),
        (b"TIMEOUT", b"-BADOPTION the option timeout needs a value\r\n"),
        (b"HEADER timeout", b"-BADOPTION "),
        (b"KEY", b"-BADOPTION "),
        (b"WHAT 1", b"-BADOPTION "),
        (b"DELAY 1", b"-BADOPTION a request is published at once and for itself"),
        (b"DEDUP 1", b"-BADOPTION "),
        (b"TIMEOUT 0.001", b"-TIMEOUT No reply arrived in time"),
    ],
)
async def test_what_is_wrong_with_a_request_is_told(words, reply, client):
    client.send(b"REQUEST", b"t", b"ask", *words.split())
    while not (answer := client.transport.take()):
        await settle_down()
    assert answer.startswith(reply)
    assert await client.say(b"PING") == b"+PONG\r\n"


async def test_what_is_wrong_with_a_reply_is_told(client):
    await client.say(b"PUBLISH t ask")
    receipt = await receipt_of(client)
    assert await client.say(b"REPLY t %b x" % receipt) == (
        b"-NOREQUEST The message asks for no reply; it is still leased\r\n"
    )
    assert await client.say(b"ACK t " + receipt) == OK
    assert (await client.say(b"REPLY t 1 x")).startswith(b"-NOLEASE ")
    assert (await client.say(b"REPLY a/b 1 x")).startswith(b"-BADTOPIC ")


async def test_commands_after_a_request_of_a_client_that_sends_no_more_are_carried_out(world, server, client):
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


@pytest.mark.parametrize("end", ["lose", "end", "end TLS", "too much behind it"])
async def test_who_leaves_is_not_waited_for_and_the_replier_hears_so(end, world, server, client):
    asker = await asking(server, is_tls=end == "end TLS")
    receipt = await receipt_of(client)
    if end == "lose":
        asker.transport.lose()
    elif end == "end":  # the kernel reports a closed socket so
        assert asker.connection.eof_received()
    elif end == "end TLS":
        assert not asker.connection.eof_received()
    else:
        asker.connection.data_received(command(b"PING") * (MAX_KEPT_BYTES // 14 + 1))
    await settle_down()
    assert asker.transport.take().startswith(b"" if end == "lose" else b"-TIMEOUT ")
    assert await client.say(b"REPLY t %b x" % receipt) == (
        b"-GONE The requester no longer waits for the reply; the message is acknowledged\r\n"
    )
    assert world.broker.stats()[b"t"].acknowledged == 1


async def test_a_request_that_waits_for_room_asks_when_there_is_some(monkeypatch, world, server, client):
    monkeypatch.setattr(
        type(world.broker.backpressure), "must_wait", property(lambda crowd: crowd.is_full), raising=False
    )
    world.broker.backpressure.is_full = True
    client.send(b"REQUEST", b"t", b"ask")
    await settle_down()
    world.broker.backpressure.is_full = False
    await settle_down()
    other = Client(server)
    assert await other.say(b"REPLY t %b x" % await receipt_of(other)) == OK
    assert client.transport.take() == b"$1\r\nx\r\n"


async def test_a_request_is_refused_when_waiting_for_room_has_been_in_vain(monkeypatch, world, client):
    acts = []
    monkeypatch.setattr(type(world.broker.backpressure), "must_wait", True)
    monkeypatch.setattr(world.broker.backpressure, "call_when_room", acts.append)
    client.send(b"REQUEST", b"a/b", b"ask")
    client.send(b"PING")
    (act,) = acts
    act()
    await settle_down()
    answer = client.transport.take()
    assert answer.startswith(b"-BADTOPIC ")
    assert answer.endswith(b"+PONG\r\n")


async def test_the_end_of_the_server_answers_who_waits(server, client):
    asker = await asking(server)
    server.drain()
    assert asker.transport.take().startswith(b"-")
    assert asker.transport.is_closed


async def test_a_stream_replies(world, server, client):
    first, second = await asking(server), await asking(server)
    assert await client.say(b"SUBSCRIBE t") == b"$3\r\nask\r\n"
    assert await client.say(b"REPLY") == b"-ERR invalid command\r\n"
    assert await client.say(b"REPLY a b") == b"-ERR invalid command\r\n"
    assert await client.say(b"REPLY first") == OK + b"$3\r\nask\r\n"
    second.transport.lose()
    assert (await client.say(b"REPLY second")).startswith(b"-GONE ")
    assert await client.say(b"REPLY third") == b"-NOLEASE No message is outstanding\r\n"
    assert first.transport.take() == b"$5\r\nfirst\r\n"
    await world.publish(b"t", b"no question")
    assert client.transport.take() == b"$11\r\nno question\r\n"
    assert (await client.say(b"REPLY x")).startswith(b"-NOREQUEST ")
    assert await client.say(b"ACK") == OK
    assert world.broker.stats()[b"t"].acknowledged == 3


async def test_a_stream_with_prefetch_replies_by_receipt(server, client):
    first, second = await asking(server), await asking(server)
    delivered = await client.say(b"SUBSCRIBE t PREFETCH 2")
    assert delivered.count(b"reply_to") == 2
    assert await client.say(b"REPLY 2 second") == OK
    assert await client.say(b"REPLY 2 again") == b"-NOLEASE 1 of 1 receipts belong to no message outstanding here\r\n"
    assert (await client.say(b"REPLY second")) == b"-ERR invalid command\r\n"
    assert await client.say(b"REPLY 1 first") == OK
    assert (first.transport.take(), second.transport.take()) == (b"$5\r\nfirst\r\n", b"$6\r\nsecond\r\n")
