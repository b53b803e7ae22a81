"""Connections that end: nothing of them is left, long before their keep-alive is over."""

import asyncio
import socket
import ssl
import time
from types import SimpleNamespace

import pytest

from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.hypercorn import GuardedConfig, HttpLimits, closing
from miniqueue_client import connect
from tests.loops import CalmLoop, on_loop
from tests.serving import eventually, serving

#: After so long asyncio itself waits no longer for the answer.
TLS_GIVES_UP_SECONDS = 30


async def connected(served):
    context = ssl.create_default_context(cafile=served.cafile)
    return (await asyncio.open_connection("localhost", served.port, ssl=context))[1]


async def idle_and_close(served):
    (await connected(served)).close()


async def idle_and_abort(served):
    writer = await connected(served)
    writer.transport.abort()
    writer.close()


async def idle_over_http2(served):
    client = await connect("localhost", served.port, cafile=served.cafile)
    await client.publish("t", b"x")
    client.close()


async def leave_a_stream(served):
    client = await connect("localhost", served.port, cafile=served.cafile)
    async with client.subscribe("t"):
        client.close()


def connections():
    """Return the tasks of the server's connections."""
    return [task for task in asyncio.all_tasks() if "_server_callback" in repr(task.get_coro())]


@pytest.mark.parametrize("act", [idle_and_close, idle_and_abort, idle_over_http2, leave_a_stream])
async def test_a_client_that_leaves_takes_its_tasks_along(certificates, act):
    async with serving(certificates) as served:
        for _ in range(3):
            await act(served)
        await served.request("GET", "/none")  # on a connection that stays, and is accepted after the others
        await eventually(lambda: len(connections()) == 1)


async def test_a_client_that_leaves_before_the_turn_of_its_connection_does_no_harm():
    """Hypercorn would ask for the address of a connection that has ended, and the whole listener failed."""
    config = GuardedConfig()
    config.limits = HttpLimits(Refusals(time.monotonic))
    transport = SimpleNamespace(is_closing=lambda: True, set_write_buffer_limits=lambda _: None)
    writer = SimpleNamespace(transport=transport, get_extra_info=lambda _: None)
    loop = asyncio.get_running_loop()
    await closing.GuardedConnection(None, loop, config, None, {}, None, writer).run()
    assert config.limits.memory.used_bytes == 0


def ask_and_fall_silent(port, cafile):
    """Make a request that ends its connection, take what comes, and never answer the goodbye of TLS."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl.create_default_context(cafile=cafile).wrap_bio(incoming, outgoing, server_hostname="localhost")
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            client.sendall(outgoing.read())
            incoming.write(client.recv(1 << 16))
    tls.write(b"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    client.sendall(outgoing.read())
    return client


@on_loop(CalmLoop)
async def test_who_has_everything_and_does_not_answer_the_goodbye_is_not_waited_for(certificates, monkeypatch):
    monkeypatch.setattr(closing, "CLOSE_SECONDS", 1000)

    async with serving(certificates) as served:
        client = await asyncio.to_thread(ask_and_fall_silent, served.port, served.cafile)
        with client:
            await served.request("GET", "/none")  # on a connection that is accepted after it
            begun_at = asyncio.get_running_loop().time()
            await eventually(lambda: len(connections()) == 1)
            assert asyncio.get_running_loop().time() - begun_at < TLS_GIVES_UP_SECONDS / 2


@pytest.mark.parametrize("answer_seconds", [60, 0])
def test_who_still_sends_is_not_silent(monkeypatch, answer_seconds):
    monkeypatch.setattr(closing, "ANSWER_SECONDS", answer_seconds)
    acts = []
    connection = object.__new__(closing.GuardedConnection)
    connection.loop = SimpleNamespace(call_later=lambda *_: acts.append("look again"))
    connection.writer = SimpleNamespace(transport=SimpleNamespace(abort=lambda: acts.append("cut off")))
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server = listener.accept()[0]
        with server:
            client.sendall(b"a part of a body")
            server.recv(100)
            connection._abort_if_silent(server)
    assert acts == ["look again" if answer_seconds else "cut off"]
