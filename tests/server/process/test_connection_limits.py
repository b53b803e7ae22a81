"""How many connections there are, in all and from one address; and that those that end make room."""

import asyncio
import ssl

import pytest
import structlog.testing

from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.process.connection_limits import ConnectionLimits
from miniqueue.server.security.certificates import server_tls_context
from tests.server.process.test_accepting import LAST_WORDS, Greeters, heard
from tests.serving import eventually


def limits_of(max_connections: int = 0, max_per_address: int = 0) -> ConnectionLimits:
    return ConnectionLimits(max_connections, max_per_address, LimitCounts())


def test_there_may_be_so_many_in_all():
    counts = LimitCounts()
    limits = ConnectionLimits(2, 0, counts)
    for address in ("10.0.0.1", "10.0.0.2"):
        assert limits.limit_for(address) is None
        limits.opened(address)
    assert limits.limit_for("10.0.0.3") is Limit.CONNECTIONS
    limits.closed("10.0.0.1")
    assert limits.limit_for("10.0.0.3") is None
    assert counts.counts == {Limit.CONNECTIONS: 1}


@pytest.mark.parametrize(
    ("address", "others", "strangers"),
    [
        ("10.0.0.1", ["10.0.0.1", "::ffff:10.0.0.1"], ["10.0.0.2", "2001:db8::1"]),
        ("2001:db8::1", ["2001:db8::2", "2001:db8::1%eth0"], ["2001:db8:0:1::1", "10.0.0.1"]),
    ],
)
def test_there_may_be_so_many_from_one_address(address, others, strangers):
    limits = limits_of(max_per_address=1)
    limits.opened(address)
    assert [limits.limit_for(other) for other in others] == [Limit.CONNECTIONS_PER_ADDRESS] * len(others)
    assert [limits.limit_for(other) for other in strangers] == [None] * len(strangers)
    limits.closed(address)
    assert limits.limit_for(address) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_have_ten_times_as_many(address):
    limits = limits_of(max_per_address=1)
    for _ in range(10):
        assert limits.limit_for(address) is None
        limits.opened(address)
    assert limits.limit_for(address) is Limit.CONNECTIONS_PER_ADDRESS


def test_without_limits_there_are_none():
    limits = limits_of()
    for _ in range(100):
        limits.opened("10.0.0.1")
    assert limits.limit_for("10.0.0.1") is None


async def serve(
    act, *, limits: ConnectionLimits, tls: ssl.SSLContext | None = None, is_operators: bool = False
) -> None:
    """Run `act(port)` alongside a server that greets every accepted connection."""
    loop = asyncio.get_running_loop()
    loop.limits = limits
    listener = listen("127.0.0.1", 0)
    if is_operators:
        loop.admit_to_reserve(listener)
    server = await loop.create_server(Greeters(), sock=listener, ssl=tls, ssl_handshake_timeout=60.0)
    try:
        await act(listener.getsockname()[1])
    finally:
        server.close()


def run(act, **options) -> None:
    with asyncio.Runner(loop_factory=AcceptingLoop) as runner:
        runner.run(asyncio.wait_for(serve(act, **options), 60))


@pytest.mark.parametrize("is_per_address", [True, False])
def test_one_too_many_hears_why_and_the_end_of_another_makes_room(monkeypatch, is_per_address):
    monkeypatch.setattr("miniqueue.server.process.connection_limits.LOOPBACK_FACTOR", 1)
    counts = LimitCounts()
    limits = ConnectionLimits(0, 2, counts) if is_per_address else ConnectionLimits(2, 0, counts)

    async def act(port):
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        assert [await reader.read(5) for reader, _ in connections] == [b"hello"] * 2
        assert await heard(port) == LAST_WORDS
        assert sum(counts.counts.values()) == 1
        connections[0][1].close()
        await eventually(lambda: limits._total == 1)
        assert await heard(port) == b"hello"
        connections[1][1].close()
        await eventually(lambda: limits._total == 0)

    with structlog.testing.capture_logs() as logged:
        run(act, limits=limits)
    assert [entry["event"] for entry in logged] == ["too many connections; one was refused"]


def test_the_operators_connections_do_not_count():
    limits = limits_of(max_connections=1, max_per_address=1)

    async def act(port):
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert [await reader.read(5) for reader, _ in connections] == [b"hello"] * 20
        assert limits._total == 0
        for _, writer in connections:
            writer.close()

    run(act, limits=limits, is_operators=True)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "no TLS"])
def test_connections_that_never_agree_on_tls_count_until_they_end(certificates, said):
    limits = limits_of(max_connections=5)
    context = server_tls_context(certificates.cert, certificates.key)

    async def act(port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await eventually(lambda: limits._total == 1)
        writer.write(said)
        if not said:
            writer.close()
        await eventually(lambda: limits._total == 0)
        writer.close()

    run(act, limits=limits, tls=context)
