"""A refused client in the middle of a long message receives the error, and cannot send forever."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from miniqueue.server.resp import closing
from tests.fakes import settle_down
from tests.server.resp.victim import resp_victim

MESSAGE_BYTES = 3 << 20
TOO_LONG = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n$%d\r\n" % MESSAGE_BYTES
REFUSAL = b"-ERR Protocol error: invalid bulk length\r\n"


PATIENCE_SECONDS = 60


@asynccontextmanager
async def attacked(certificates):
    async with resp_victim(certificates, is_tls=False) as victim, asyncio.timeout(PATIENCE_SECONDS):
        yield victim


def say_it_all_then_listen(port: int) -> bytes:
    """Send a message as clients do that know no better: all of it, before they read."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(TOO_LONG + bytes(MESSAGE_BYTES) + b"\r\n")
        heard = b""
        while piece := client.recv(1 << 16):
            heard += piece
        return heard


async def test_the_refusal_reaches_a_client_that_was_still_sending(certificates):
    async with attacked(certificates) as victim:
        for _ in range(5):
            heard = await asyncio.to_thread(say_it_all_then_listen, victim.port)
            assert heard == REFUSAL
        assert victim.ended("protocol_error") == 5


async def send_for_long(peer):
    for _ in range(1_000):
        peer.writer.write(bytes(1 << 16))
        await peer.writer.drain()


async def test_who_sends_on_and_on_is_cut(certificates, monkeypatch):
    monkeypatch.setattr(closing, "MAX_LINGER_BYTES", 1 << 20)

    async with attacked(certificates) as victim:
        peer = await victim.peer()
        await peer.say(TOO_LONG)
        assert await peer.until_over() == REFUSAL
        with pytest.raises(ConnectionError):
            await send_for_long(peer)


async def test_who_stays_is_cut_in_the_end(certificates, monkeypatch):
    monkeypatch.setattr(closing, "LINGER_SECONDS", 0.0)

    async with attacked(certificates) as victim:
        peer = await victim.peer()
        await peer.say(TOO_LONG)
        assert await peer.until_over() == REFUSAL
        while victim.server.connections:
            await settle_down()
