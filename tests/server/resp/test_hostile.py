"""What bytes a RESP client may send, row by row: what is sent, and the one answer that is documented for it.

Each over a real socket, in one piece and byte by byte, on TLS and without.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from miniqueue.server.resp import closing
from tests.loops import on_loop
from tests.server.access import token_of
from tests.server.hypercorn.hostile import LeapingLoop, leap
from tests.server.resp.clients import command, started_server
from tests.server.resp.victim import resp_victim

PING = command(b"PING")
PONG = b"+PONG\r\n"
OK = b"+OK\r\n"
BAD_COUNT = b"-ERR Protocol error: invalid multibulk length\r\n"
BAD_SIZE = b"-ERR Protocol error: invalid bulk length\r\n"
NO_CRLF = b"-ERR Protocol error: expected CRLF after a bulk string\r\n"
NOT_INLINE = (
    b"-ERR Protocol error: only ACK, AUTH, BACK, DACK, GET, HELLO, NACK, PING, PUB, QUIT, SUB can be sent inline, "
    b"other commands as arrays\r\n"
)
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
#: With the time that a test leaps over.
PATIENCE_SECONDS = 80
NOAUTH = b"-NOAUTH Authentication required.\r\n"

on_both = pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "plain"])
in_both_ways = pytest.mark.parametrize("byte_by_byte", [False, True], ids=["whole", "byte by byte"])


def other(type_byte: bytes, expected: bytes = b"$") -> bytes:
    return b"-ERR Protocol error: expected '%b', got '%b'\r\n" % (expected, type_byte)


#: The connection ends behind this answer; what is in front of it has been answered as always.
ENDED = {
    "*N over the limit of any command": (b"*10003\r\n", BAD_COUNT),
    "*N over the limit of a command that is not for many": (b"*1025\r\n$7\r\nPUBLISH\r\n", BAD_COUNT),
    "*N over the limit of an unknown command": (b"*1025\r\n$2\r\nNO\r\n", BAD_COUNT),
    "*N of 2^31-1": (b"*2147483647\r\n", BAD_COUNT),
    "*N of 2^32": (b"*4294967296\r\n", BAD_COUNT),
    "*N of 30 digits": (b"*" + b"9" * 30 + b"\r\n", BAD_COUNT),
    "$N over the largest message": (b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$1048577\r\n", BAD_SIZE),
    "$N of 2 GB": (b"*1\r\n$2000000000\r\n", BAD_SIZE),
    "*01": (PING + b"*01\r\n", PONG + BAD_COUNT),
    "*+3": (b"*+3\r\n", BAD_COUNT),
    "*abc": (b"*abc\r\n", BAD_COUNT),
    "*-2": (b"*-2\r\n", BAD_COUNT),
    "$-1": (PING + b"*1\r\n$-1\r\n", PONG + BAD_SIZE),
    "$-2": (b"*1\r\n$-2\r\n", BAD_SIZE),
    "$01": (b"*1\r\n$01\r\nx\r\n", BAD_SIZE),
    "$+1": (b"*1\r\n$+1\r\nx\r\n", BAD_SIZE),
    "an integer in a command": (b"*2\r\n$4\r\nPING\r\n:5\r\n", other(b":")),
    "an integer that is none": (b"*1\r\n:1x\r\n", other(b":")),
    "an array in a command": (b"*2\r\n$4\r\nPING\r\n*1\r\n$1\r\nx\r\n", other(b"*")),
    "500 arrays in each other": (b"*16\r\n" * 500, other(b"*")),
    "a simple string in a command": (b"*1\r\n+PING\r\n", other(b"+")),
    "an error in a command": (b"*1\r\n-ERR\r\n", other(b"-")),
    "two other bytes behind a bulk": (b"*1\r\n$4\r\nPINGXY" + PING, NO_CRLF),
    "LF behind a bulk": (PING + b"*1\r\n$4\r\nPING\n" + PING, PONG + NO_CRLF),
    "a bulk longer than it says": (b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$1\r\nxyz\r\n", NO_CRLF),
    "two other bytes behind one of a run": (
        command(b"PUBLISH", b"t", b"x") + command(b"PUBLISH", b"t", b"x")[:-2] + b"XY" + PING,
        OK + NO_CRLF,
    ),
    "an inline command that programs send": (b"PUBLISH t x\r\n", NOT_INLINE),
    "an inline command behind another": (PING + b"TOPIC DELETE t\r\n", PONG + NOT_INLINE),
    "an inline command over 1 KiB": (
        b"PING " + b"x" * 1020,
        b"-ERR Protocol error: too big inline request\r\n",
    ),
    "an inline command with an open quote": (
        b'PING "x\r\n',
        b"-ERR Protocol error: unbalanced quotes in request\r\n",
    ),
    "a map as a command": (b"%1\r\n*1\r\n:1\r\n:2\r\n", other(b"%", b"*")),
    "a set as a command": (PING + b"~1\r\n$4\r\nPING\r\n", PONG + other(b"~", b"*")),
    "a push as a command": (b">1\r\n$4\r\nPING\r\n", other(b">", b"*")),
    "an attribute": (b"|1\r\n$1\r\na\r\n$1\r\nb\r\n" + PING, other(b"|", b"*")),
    "a big number": (b"(1\r\n", other(b"(", b"*")),
    "a verbatim string": (b"=8\r\ntxt:PING\r\n", other(b"=", b"*")),
    "a bulk string as a command": (b"$4\r\nPING\r\n", other(b"$", b"*")),
    "a simple string as a command": (b"+PING\r\n", other(b"+", b"*")),
    "a streamed string": (b"$?\r\n;4\r\nPING\r\n", other(b"$", b"*")),
    "QUIT, and more behind it": (PING + b"QUIT\r\n" + PING, PONG + OK),
}

#: Nothing is said but the answer to what came before.
CUT = {
    "GET": (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b""),
    "GET and no more than the beginning of a path": (b"GET /", b""),
    "GET of a whole address": (b"GET http://localhost", b""),
    "GET with neither": (b"GET * HTTP/1.1\r\n", b""),
    "a method that a page has chosen": (b"PUB /t HTTP/1.1\r\nContent-Length: 1\r\n", b""),
    "Host: behind a word that people type": (b"\r\nPING\r\nHost: localhost\r\n", PONG),
    "POST with commands in its body": (b"POST / HTTP/1.1\r\n\r\n" + command(b"PUBLISH", b"t", b"forged"), b""),
    "PUT": (b"PUT /x HTTP/1.1\r\n", b""),
    "Host:": (b"Host: localhost\r\n", b""),
    "Host: behind a line of HTTP that is none": (b"\r\nHost: localhost\r\n", b""),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""),
    "the hello of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b""),
    "HTTP behind a command": (PING + b"GET / HTTP/1.1\r\n" + PING, PONG),
}

#: The connection goes on: what comes is this, and the answer to one PING more.
SERVED = {
    "*0": (b"*0\r\n", b""),
    "*-1": (b"*-1\r\n", b""),
    "empty lines": (b"\r\n\n\r\n" * 10, b""),
    "AUTH inline": (b"AUTH default x\r\n", OK),
    "PING inline": (b"PING\r\nping x\n", PONG + b"$1\r\nx\r\n"),
    "an inline command of 1 KiB": (b"PING " + b"x" * 1019 + b"\n", b"$1019\r\n" + b"x" * 1019 + b"\r\n"),
    "*N at the limit": (command(b"NO", *[b""] * 1023), b"-ERR unknown command 'NO'\r\n"),
    "HELLO 4": (command(b"HELLO", b"4"), b"-NOPROTO Unsupported protocol version\r\n"),
    "an unknown command": (command(b"MONITOR"), b"-ERR unknown command 'MONITOR'\r\n"),
    "EVAL": (command(b"EVAL", b"return 0", b"0"), b"-ERR unknown command 'EVAL'\r\n"),
    "DEBUG": (command(b"DEBUG", b"SLEEP", b"10"), b"-ERR unknown command 'DEBUG'\r\n"),
    "an unknown command with control characters": (
        command(b"\x1b[31mX\r\n+OK\x00\x7f\xff"),
        b"-ERR unknown command '?[31mX??+OK??\xef\xbf\xbd'\r\n",
    ),
    "an unknown command of 200 bytes": (command(b"x" * 200), b"-ERR unknown command '%b'\r\n" % (b"x" * 128)),
    "a command without letters": (command(b""), b"-ERR unknown command ''\r\n"),
}

#: Before the sign-in; the connection ends.
ENDED_UNKNOWN = {
    "*N over 10": (b"*11\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n"),
    "*N over 10, of a command for many": (
        b"*11\r\n$3\r\nACK\r\n",
        b"-ERR Protocol error: unauthenticated multibulk length\r\n",
    ),
    "$N over 16 KiB": (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", BAD_SIZE),
    "$N over 16 KiB behind a wrong secret": (
        command(b"AUTH", b"stranger", b"wrong") + b"*2\r\n$4\r\nAUTH\r\n$16385\r\n",
        WRONGPASS + BAD_SIZE,
    ),
    "HTTP": (b"GET / HTTP/1.1\r\n", b""),
}

#: Before the sign-in; the connection goes on.
SERVED_UNKNOWN = {
    "a command": (command(b"PUBLISH", b"orders", b"x"), NOAUTH),
    "a command that does not exist": (command(b"NOSUCH"), NOAUTH),
    "many commands": (command(b"TOPICS") * 300, NOAUTH * 300),
    "*N of 10": (command(b"NO", *[b""] * 9), NOAUTH),
    "PING": (PING + b"PING\r\n", PONG * 2),
    "what a user may send, behind a secret that is right": (
        command(b"AUTH", token_of("publisher"))
        + command(b"PUBLISH", b"orders", bytes(20_000))
        + command(b"ECHO", *[b""] * 19),
        OK + OK + b"-ERR invalid number of args, want: 2; syntax: ECHO text\r\n",
    ),
}


@asynccontextmanager
async def attacked(certificates, *, is_tls, **options):
    async with resp_victim(certificates, is_tls=is_tls, **options) as victim, asyncio.timeout(PATIENCE_SECONDS):
        yield victim


@on_both
@in_both_ways
@pytest.mark.parametrize("row", ENDED)
@on_loop(LeapingLoop)
async def test_ended(certificates, row, is_tls, byte_by_byte):
    said, answer = ENDED[row]

    async with attacked(certificates, is_tls=is_tls) as victim:
        assert await victim.answer_to(said, byte_by_byte=byte_by_byte) == answer
        assert victim.ended("protocol_error") == (answer[-5:] != OK)


@on_both
@in_both_ways
@pytest.mark.parametrize("row", CUT)
@on_loop(LeapingLoop)
async def test_cut_without_a_word(certificates, row, is_tls, byte_by_byte):
    said, answer = CUT[row]

    async with attacked(certificates, is_tls=is_tls) as victim:
        assert await victim.answer_to(said, byte_by_byte=byte_by_byte) == answer
        assert victim.ended("foreign_protocol") == 1
        assert victim.world.broker.topics() == []


@on_both
@in_both_ways
@pytest.mark.parametrize("row", SERVED)
@on_loop(LeapingLoop)
async def test_served(certificates, row, is_tls, byte_by_byte):
    said, answer = SERVED[row]

    async with attacked(certificates, is_tls=is_tls) as victim:
        peer = await victim.peer()
        await peer.say(said, byte_by_byte=byte_by_byte)
        await peer.say(command(b"ECHO", b"end"))
        assert await peer.until(b"$3\r\nend\r\n") == answer + b"$3\r\nend\r\n"


@on_both
@in_both_ways
@pytest.mark.parametrize("row", ENDED_UNKNOWN)
@on_loop(LeapingLoop)
async def test_ended_before_the_sign_in(certificates, row, is_tls, byte_by_byte):
    said, answer = ENDED_UNKNOWN[row]

    async with attacked(certificates, is_tls=is_tls, has_users=True) as victim:
        assert await victim.answer_to(said, byte_by_byte=byte_by_byte) == answer


@on_both
@pytest.mark.parametrize("row", SERVED_UNKNOWN)
@on_loop(LeapingLoop)
async def test_served_before_the_sign_in(certificates, row, is_tls):
    said, answer = SERVED_UNKNOWN[row]

    async with attacked(certificates, is_tls=is_tls, has_users=True) as victim:
        peer = await victim.peer()
        await peer.say(said)
        await peer.say(command(b"PING", b"end"))
        assert await peer.until(b"$3\r\nend\r\n") == answer + b"$3\r\nend\r\n"


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("said", [b"", PING, b"*2\r\n$4\r\nAUTH\r\n$99\r\n"], ids=["nothing", "PING", "half"])
@on_loop(LeapingLoop)
async def test_who_has_not_signed_in_after_10_s_is_sent_away(certificates, is_tls, said):
    async with attacked(certificates, is_tls=is_tls, has_users=True) as victim:
        peer = await victim.peer()
        await peer.say(said)
        await leap(9)
        assert len(victim.server.connections) == 1
        await leap(1.5)
        assert (await peer.until_over()).endswith(b"-NOAUTH not authenticated in time; send AUTH first\r\n")
        assert victim.ended("late_sign_in") == 1


@on_both
@on_loop(LeapingLoop)
async def test_who_has_signed_in_stays(certificates, is_tls):
    async with attacked(certificates, is_tls=is_tls, has_users=True) as victim:
        peer = await victim.peer()
        await peer.say(command(b"AUTH", token_of("stranger")))
        assert await peer.until(OK) == OK
        await leap(60)
        await peer.say(PING)
        assert await peer.until(PONG) == PONG


@on_loop(LeapingLoop)
async def test_a_message_of_the_largest_size_is_taken(certificates):
    async with attacked(certificates, is_tls=False) as victim:
        peer = await victim.peer()
        await peer.say(command(b"PUBLISH", b"t", bytes(1 << 20)))
        assert await peer.until(OK) == OK
        assert (
            await victim.answer_to(
                b"*4\r\n$8\r\nMPUBLISH\r\n$1\r\nt\r\n$1048576\r\n" + bytes(1 << 20) + b"\r\n$1048576\r\n"
            )
            == BAD_SIZE
        )


@on_loop(LeapingLoop)
async def test_commands_for_many_take_what_the_largest_prefetch_needs(certificates):
    async with attacked(certificates, is_tls=False) as victim:
        peer = await victim.peer()
        await peer.say(command(b"MPUBLISH", b"t", *[b"x"] * 10_000))
        assert await peer.until(b"0-9999\r\n")
        await peer.say(command(b"SUBSCRIBE", b"t", b"PREFETCH", b"10000"))
        for _ in range(10_000):
            assert (await peer.until(b"*0\r\n")).startswith(b"*3\r\n")
        await peer.say(command(b"DACK", b"0", *[b"%d" % (n + 1) for n in range(10_000)]))
        assert await peer.until(OK) == OK


@pytest.mark.slow
@on_both
@on_loop(LeapingLoop)
async def test_a_thousand_ends_are_one_line_of_the_log(certificates, is_tls):
    async with attacked(certificates, is_tls=is_tls) as victim:
        for _ in range(100 if is_tls else 1000):
            assert await victim.answer_to(b"GET /") == b""
        assert [entry["reason"] for entry in victim.logged] == ["foreign_protocol"]
        await victim.answer_to(b"*x\r\n")
        assert [entry["reason"] for entry in victim.logged] == ["foreign_protocol", "protocol_error"]


# --- what the peer does not take ---------------------------------------------------------------------------------


@on_both
@on_loop(LeapingLoop)
async def test_who_takes_nothing_is_held_back_and_costs_little(certificates, is_tls):
    """Its commands wait with the kernel: what has been read and not answered is far from 4 MiB."""
    async with attacked(certificates, is_tls=is_tls) as victim:
        peer = await victim.peer()
        peer.writer.transport.set_write_buffer_limits(1 << 25)
        peer.reader._transport.pause_reading()
        peer.writer.write(command(b"ECHO", bytes(10_000)) * 1600)
        for _ in range(500):
            await asyncio.sleep(0)
        (connection,) = victim.server.connections.values()
        assert not connection._transport.is_reading()
        read_bytes = sum(len(word) for words in connection._incoming.postponed for word in words)
        assert read_bytes + len(connection._incoming.reader._strict._buffer) < 1 << 20
        assert connection._transport.get_write_buffer_size() < 2 << 20


@asynccontextmanager
async def stalled(monkeypatch, *, max_bytes, max_lasting_bytes):
    """Yield client beside a client that has 1,000 bytes to take."""
    monkeypatch.setattr(closing, "MAX_UNREAD_BYTES", max_bytes)
    monkeypatch.setattr(closing, "MAX_LASTING_UNREAD_BYTES", max_lasting_bytes)
    monkeypatch.setattr(closing, "UNREAD_SECONDS", 0)

    async with started_server(max_message_bytes=10) as (_world, server, client):
        client.transport.high_water_bytes = 100
        client.send(b"ECHO", b"x" * 990)
        yield server, client


async def test_more_than_there_may_be_is_cut_at_once(monkeypatch):
    async with stalled(monkeypatch, max_bytes=500, max_lasting_bytes=500) as (server, client):
        assert client.transport.is_closed
        assert server.refusals.counts == {"slow_reader": 1}


async def test_much_that_lasts_is_cut(monkeypatch):
    async with stalled(monkeypatch, max_bytes=5000, max_lasting_bytes=500) as (server, client):
        assert not client.transport.is_closed
        await asyncio.sleep(0.001)
        assert client.transport.is_closed
        assert server.refusals.counts == {"slow_reader": 1}


async def test_little_may_last(monkeypatch):
    async with stalled(monkeypatch, max_bytes=5000, max_lasting_bytes=2000) as (_server, client):
        await asyncio.sleep(0.001)
        assert not client.transport.is_closed


async def test_who_catches_up_in_time_is_not_cut(monkeypatch):
    async with stalled(monkeypatch, max_bytes=5000, max_lasting_bytes=500) as (_server, client):
        client.transport.high_water_bytes = None
        client.connection.resume_writing()
        await asyncio.sleep(0.001)
        assert not client.transport.is_closed


def test_the_figures_are_those_of_redis():
    figures = closing.MAX_UNREAD_BYTES, closing.MAX_LASTING_UNREAD_BYTES, closing.UNREAD_SECONDS
    assert figures == (32 << 20, 8 << 20, 60.0)
