"""Who makes room when exposed monitoring is full."""

import asyncio
import ssl
from contextlib import suppress

import pytest
import structlog.testing

from miniqueue.access.users import User
from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.server.hypercorn.listening import listen
from miniqueue.server.process.accepting import AcceptingLoop
from miniqueue.server.process.connection_limits import ConnectionLimits
from miniqueue.server.process.guests import Guests
from miniqueue.server.security.certificates import server_tls_context
from tests.serving import eventually, make_certificates


class FakeConnection:
    is_open = True

    def cut_off(self):
        self.is_open = False


class Door:
    """Guests by short names: `a1` is a connection of network a."""

    def __init__(self):
        self.users = set()
        self.guests = Guests(self.users.__contains__)
        self.connections = {}

    @staticmethod
    def peer(name):
        return f"10.0.0.{ord(name[0])}", int(name[1:])

    def opened(self, *names):
        for name in names:
            self.connections[name] = FakeConnection()
            self.guests.opened(self.peer(name), self.connections[name])

    def leaves_for(self, address, limit=Limit.CONNECTIONS):
        """Return the name of the connection that makes room."""
        before = self.open_ones()
        peer = self.guests.make_room(self.peer(address)[0], limit)
        closed = before - self.open_ones()
        assert peer == (self.peer(next(iter(closed))) if closed else None)
        return "".join(closed)

    def open_ones(self):
        return {name for name, connection in self.connections.items() if connection.is_open}

    async def request(self, name, user=None, meanwhile=lambda: None):
        async def app(scope, receive, send):
            if user is not None:
                scope["user"] = user
            await send({"type": "http.response.start"})
            meanwhile()

        async def send(message):
            pass

        await self.guests.recorded(app)({"type": "http", "client": self.peer(name)}, send, send)


@pytest.fixture
def door():
    return Door()


def test_the_oldest_connection_makes_room(door):
    door.opened("a1", "b1", "c1")
    assert [door.leaves_for("d1") for _ in range(4)] == ["a1", "b1", "c1", ""]


async def test_a_request_makes_a_connection_the_newest(door):
    door.opened("a1", "b1", "c1")
    await door.request("a1")
    assert [door.leaves_for("d1") for _ in range(3)] == ["b1", "c1", "a1"]


def test_the_network_that_has_most_makes_room_first(door):
    door.opened("a1", "b1", "b2", "c1")
    assert [door.leaves_for("d1") for _ in range(3)] == ["b1", "a1", "b2"]


async def test_a_connection_with_a_request_makes_room_last(door):
    door.opened("a1", "b1")
    left = []
    await door.request("a1", meanwhile=lambda: left.extend(door.leaves_for("c1") for _ in range(2)))
    assert left == ["b1", "a1"], "no stranger is safe by making its request last"


def test_an_address_makes_room_for_itself(door):
    door.opened("a1", "b1", "b2")
    assert door.leaves_for("a2", Limit.CONNECTIONS_PER_ADDRESS) == "a1"
    assert door.leaves_for("a2", Limit.CONNECTIONS_PER_ADDRESS) == ""


async def test_who_has_signed_in_stays_for_as_long_as_the_user_does(door):
    user = User("watch")
    door.users.add(user)
    door.opened("a1", "b1")
    left = []
    await door.request("a1", user, lambda: left.append(door.leaves_for("c1")))
    await door.request("a1")  # /livez
    assert [*left, door.leaves_for("c1")] == ["b1", ""]
    door.users.clear()
    assert door.leaves_for("c1") == "a1"


def test_a_connection_that_has_ended_makes_no_room(door):
    door.opened("a1", "b1")
    door.guests.closed(door.peer("a1"))
    assert door.leaves_for("c1") == "b1"


async def test_requests_of_others_are_answered(door):
    await door.request("z1")


@pytest.mark.parametrize("agrees_on_tls", [False, True])
def test_sockets_that_make_room_are_counted_no_more_and_closed(tmp_path, agrees_on_tls):
    certificates = make_certificates(tmp_path)
    trusting = ssl.create_default_context(cafile=certificates.cert.with_name("ca.pem"))
    protocols = []

    class Silent(asyncio.Protocol):
        def connection_made(self, transport):
            protocols.append(transport)

    async def connect(port):
        options = {"ssl": trusting, "server_hostname": "localhost"} if agrees_on_tls else {}
        return await asyncio.open_connection("127.0.0.1", port, **options)

    async def scenario():
        loop = asyncio.get_running_loop()
        listener = listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        counts = LimitCounts()
        limits = ConnectionLimits(2, 0, counts)
        loop.admit_to_reserve(listener, limits, Guests(lambda _: False))
        server = await loop.create_server(
            Silent, sock=listener, ssl=server_tls_context(certificates.cert, certificates.key)
        )
        clients = []
        for number in range(4):
            clients.append(await connect(port))
            await eventually(lambda number=number: counts.counts[Limit.CONNECTIONS] == max(0, number - 1))
            if agrees_on_tls:
                await eventually(lambda number=number: len(protocols) == number + 1)
        for reader, _ in clients[:2]:
            with suppress(ConnectionError):
                assert await reader.read() == b""
        assert limits._total == 2
        assert not any(reader.at_eof() for reader, _ in clients[2:])
        for _, writer in clients:
            writer.transport.abort()
        await eventually(lambda: limits._total == 0)
        server.close()

    with structlog.testing.capture_logs() as logged, asyncio.Runner(loop_factory=AcceptingLoop) as runner:
        runner.run(scenario())
    assert [entry["event"] for entry in logged] == ["too many connections; one that had not signed in was closed"]
