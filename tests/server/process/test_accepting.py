"""Accepting connections while there are descriptors to spare; the limit is a fake, not that of the process."""

import asyncio
import os
import socket
import ssl
from contextlib import contextmanager

import pytest
import structlog.testing

from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.process import accepting, descriptors
from miniqueue.server.process.accepting import AcceptingLoop

LAST_WORDS = b"-ERR full\r\n"


class Greeter(asyncio.Protocol):
    """Says hello to whoever is let in."""

    def connection_made(self, transport):
        transport.write(b"hello")

    def eof_received(self):
        return False


class Greeters:
    refusal = LAST_WORDS

    def __call__(self):
        return Greeter()


@contextmanager
def loop_with(monkeypatch, limit):
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    monkeypatch.setattr(descriptors, "reserve", lambda _: descriptors.RESERVED)
    with asyncio.Runner(loop_factory=AcceptingLoop) as runner:
        yield runner


@pytest.fixture(autouse=True)
def descriptors_without_gaps():
    """Take the numbers that are free below the highest one in use: earlier tests may have left gaps."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    filling = [os.open(os.devnull, os.O_RDONLY)]
    while filling[-1] < highest:
        filling.append(os.open(os.devnull, os.O_RDONLY))
    yield
    for descriptor in filling:
        os.close(descriptor)


async def heard(port):
    """Connect, and return the first thing that comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = await reader.read(100)
    writer.close()
    return said


async def greet(is_admitted=False, granted=0):
    """Return what a client hears from a server that lets in as many as it may."""
    loop = asyncio.get_running_loop()
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    loop.granted = granted
    if is_admitted:
        loop.admit_to_reserve(listener)
    server = await loop.create_server(Greeters(), sock=listener)
    try:
        return await heard(port)
    finally:
        server.close()
        await server.wait_closed()


def descriptors_in_use():
    with socket.socket() as probe:
        return probe.fileno()


def test_a_connection_below_the_reserve_is_served(monkeypatch):
    with loop_with(monkeypatch, 10_000) as runner:
        assert runner.run(greet()) == b"hello"


def test_a_connection_in_the_reserve_hears_why_it_is_refused(monkeypatch):
    with loop_with(monkeypatch, descriptors_in_use() + descriptors.RESERVED) as runner:
        with structlog.testing.capture_logs() as logged:
            assert runner.run(greet()) == LAST_WORDS
            assert runner.run(greet()) == LAST_WORDS
        assert runner.get_loop().refused_count == 2
    assert [entry["event"] for entry in logged] == ["too many connections; one was refused"]


def test_the_operator_is_let_in_where_others_are_refused(monkeypatch):
    with loop_with(monkeypatch, descriptors_in_use() + descriptors.RESERVED) as runner:
        assert runner.run(greet(is_admitted=True)) == b"hello"


def test_a_process_of_the_broker_is_let_in_over_a_unix_socket(monkeypatch, tmp_path):
    async def greet_over_unix_socket():
        loop, path = asyncio.get_running_loop(), str(tmp_path / "back")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        loop.admit_to_reserve(listener)
        server = await loop.create_server(Greeters(), sock=listener)
        reader, writer = await asyncio.open_unix_connection(path)
        said = await reader.read(100)
        writer.close()
        server.close()
        return said

    with loop_with(monkeypatch, descriptors_in_use() + descriptors.RESERVED) as runner:
        assert runner.run(greet_over_unix_socket()) == b"hello"


def test_what_is_granted_to_others_is_not_given_away(monkeypatch):
    with loop_with(monkeypatch, 10_000) as runner:
        assert runner.run(greet(granted=10_000)) == LAST_WORDS


def test_a_listener_outlives_an_accept_that_fails(monkeypatch):
    """uvloop's own server closes it for good."""
    monkeypatch.setattr(accepting, "PAUSE_SECONDS", 0)
    with loop_with(monkeypatch, 10_000) as runner:
        loop = runner.get_loop()
        accept, faults = loop.sock_accept, [OSError(23, "Too many open files in system")] * 3

        async def sock_accept(listener):
            if faults:
                raise faults.pop()
            return await accept(listener)

        loop.sock_accept = sock_accept
        with structlog.testing.capture_logs() as logged:
            assert runner.run(greet()) == b"hello"
    assert [entry["event"] for entry in logged] == ["a connection could not be accepted"]


def test_closing_the_server_frees_its_port(monkeypatch):
    async def close_and_listen_again():
        listener = listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        server = await asyncio.get_running_loop().create_server(Greeters(), sock=listener)
        await heard(port)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await heard(port)

    with loop_with(monkeypatch, 10_000) as runner:
        runner.run(close_and_listen_again())


class Turns:
    """Gives each handshake its turn when the test says so."""

    def __init__(self):
        self.asked = asyncio.Queue()

    async def turn(self):
        self.asked.put_nowait(begun := asyncio.get_running_loop().create_future())
        await begun


def test_a_tls_handshake_begins_in_a_turn_when_the_client_has_sent_something(monkeypatch):
    async def connect_and_be_silent_first():
        loop, listener = asyncio.get_running_loop(), listen("127.0.0.1", 0)
        loop.beginnings = turns = Turns()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server = await loop.create_server(Greeters(), sock=listener, ssl=tls, ssl_handshake_timeout=60)
        silent, talking = [await asyncio.open_connection(*listener.getsockname()) for _ in range(2)]
        talking[1].write(b"no hello of TLS")
        begun = await turns.asked.get()
        assert turns.asked.empty()
        begun.set_result(None)
        assert await talking[0].read() != b"hello"
        silent[1].close()
        (await turns.asked.get()).set_result(None)  # it fails, and the connection is closed
        talking[1].close()
        server.close()

    with loop_with(monkeypatch, 10_000) as runner:
        runner.run(connect_and_be_silent_first())


def test_a_client_that_never_begins_the_tls_handshake_is_disconnected(monkeypatch):
    async def connect_and_be_silent():
        loop, listener = asyncio.get_running_loop(), listen("127.0.0.1", 0)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server = await loop.create_server(Greeters(), sock=listener, ssl=tls, ssl_handshake_timeout=0.01)
        assert await heard(listener.getsockname()[1]) == b""
        server.close()

    with loop_with(monkeypatch, 10_000) as runner:
        runner.run(connect_and_be_silent())


@pytest.mark.parametrize(("limit", "reserved"), [(16, 8), (128, 64), (1024, 64), (1 << 20, 64)])
def test_the_reserve_leaves_connections_at_least_half(limit, reserved):
    assert descriptors.reserve(limit) == reserved


def test_granian_and_the_others_together_leave_the_reserve():
    for limit in (16, 128, 1024, 1 << 20):
        assert 1 <= descriptors.granian_connections(limit) <= (limit - descriptors.reserve(limit)) // 2


@pytest.mark.parametrize(
    ("before", "after"),
    [((1024, 4096), (4096, 4096)), ((1024, -1), (1 << 20, -1)), ((1024, 1 << 30), (1 << 20, 1 << 30))],
)
def test_the_soft_limit_is_raised_to_the_hard_one_within_reason(monkeypatch, before, after):
    limits = [before]
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(descriptors.resource, "setrlimit", lambda _, wanted: limits.append(wanted))
    assert descriptors.raise_limit() == after[0]
    assert limits == [before, after]


@pytest.mark.parametrize("limits", [(4096, 4096), (-1, -1), (1 << 21, 1 << 30)])
def test_a_limit_that_will_do_is_left_alone(monkeypatch, limits):
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(descriptors.resource, "setrlimit", None)
    assert descriptors.raise_limit() >= 4096


def test_a_sandbox_that_forbids_raising_is_no_error(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(descriptors.resource, "setrlimit", refuse)
    assert descriptors.raise_limit() == 1024
