"""RESP clients when too much waits for its commit, and when nothing happens for a long time."""

import asyncio

import pytest
import structlog.testing

from miniqueue.broker.model.limits import BrokerLimits, Limit, LimitCounts
from miniqueue.server.resp.idle import IdleWatch
from tests.broker.support import world_with
from tests.fakes import FakeConsumer, FakeTransport, settle_down
from tests.server.resp.clients import Client, command
from tests.serving import NDJSON, serving

OK = b"+OK\r\n"
TEN_BYTES = BrokerLimits(max_uncommitted_bytes=10)


async def crowd(world, client) -> None:
    """Publish a message whose commit does not end and leaves no room."""
    world.store.may_write.clear()
    assert await client.say(b"PUBLISH t 0123456789x") == b""


@world_with(limits=TEN_BYTES)
async def test_a_publish_waits_for_room_and_what_is_behind_it_keeps_its_place(world, server, client):
    other = Client(server)
    await crowd(world, client)
    for line in (b"PUBLISH t second", b"MPUBLISH t third fourth", b"PING"):
        other.send(*line.split())
    await settle_down()
    assert other.transport.take() == b""
    assert not other.transport.is_reading()
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == OK
    assert other.transport.take() == OK + b"*2\r\n$3\r\n0-2\r\n$3\r\n0-3\r\n+PONG\r\n"
    assert other.transport.is_reading()
    assert FakeConsumer(world.broker, b"t").drain() == [b"0123456789x", b"second", b"third", b"fourth"]
    assert world.broker.limit_counts.counts[Limit.UNCOMMITTED] >= 1


@world_with(limits=TEN_BYTES)
async def test_who_does_not_publish_does_not_wait(world, server, client):
    consumer = Client(server)
    await client.say(b"MPUBLISH t a b")
    await consumer.say(b"SUBSCRIBE t")
    await crowd(world, client)
    assert await consumer.say(b"ACK") == b"+OK\r\n$1\r\nb\r\n"
    assert await Client(server).say(b"PING") == b"+PONG\r\n"
    world.store.may_write.set()


@world_with(limits=TEN_BYTES)
async def test_an_error_comes_when_it_is_its_turn(world, server, client):
    other = Client(server)
    await crowd(world, client)
    for line in (b"MPUBLISH a/b x", b"PUBLISH a/b x"):
        other.send(*line.split())
    world.store.may_write.set()
    await settle_down()
    assert other.transport.take().count(b"-BADTOPIC ") == 2


@world_with(limits=TEN_BYTES)
async def test_a_client_that_is_gone_publishes_nothing(world, server, client):
    other = Client(server)
    await crowd(world, client)
    other.send(b"PUBLISH", b"t", b"never")
    other.transport.lose()
    world.store.may_write.set()
    await settle_down()
    assert FakeConsumer(world.broker, b"t").drain() == [b"0123456789x"]


@pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "plain"])
@world_with(limits=TEN_BYTES)
async def test_a_client_that_ended_its_side_publishes_when_there_is_room(is_tls, world, server, client):
    other = Client(server, is_tls=is_tls)
    await crowd(world, client)
    other.send(b"PUBLISH", b"t", b"late")
    other.connection.eof_received()
    other.transport.lose()
    world.store.may_write.set()
    await settle_down()
    assert FakeConsumer(world.broker, b"t").drain() == [b"0123456789x", b"late"]
    assert server.connections == {client.connection.session.id: client.connection}


@world_with(limits=TEN_BYTES)
async def test_many_clients_make_many_small_commits(world, server, client):
    await crowd(world, client)
    clients = [Client(server) for _ in range(50)]
    for each in clients:
        each.connection.data_received(command(b"PUBLISH", b"t", b"x" * 10) * 3)
    world.store.may_write.set()
    await settle_down()
    await settle_down()
    assert [each.transport.take() for each in clients] == [OK * 3] * 50
    assert max(sum(len(value or b"") for value in batch.values()) for batch in world.store.batches) < 400


@pytest.mark.parametrize("headers", [[], [NDJSON]], ids=["one message", "lines"])
async def test_http_waits_for_room_too(certificates, headers):
    async with serving(certificates, limits=TEN_BYTES) as served:
        served.store.may_write.clear()
        served.broker.publish(b"t", [b"x" * 11])
        request = asyncio.create_task(served.request("POST", "/publish/t", b'"y"\n', *headers))
        while Limit.UNCOMMITTED not in served.broker.limit_counts.counts:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        served.store.may_write.set()
        assert (await request)[0] == (200 if headers else 201)


class Clock:
    now_seconds = 0.0

    def __call__(self) -> float:
        return self.now_seconds


def watch(world, server) -> tuple[IdleWatch, Clock]:
    clock = Clock()
    return IdleWatch(server.all_connections, 100.0, world.broker.limit_counts, clock), clock


async def test_who_does_nothing_for_long_is_disconnected(world, server, client):
    busy, subscriber, dripping = Client(server), Client(server), Client(server)
    await subscriber.say(b"SUBSCRIBE t")
    idle_watch, clock = watch(world, server)
    for now_seconds in range(0, 125, 25):
        clock.now_seconds = now_seconds
        await busy.say(b"PING")
        dripping.connection.data_received(b"*"[now_seconds:] or b"1")
        await idle_watch.look()
    await settle_down()
    ended = [each.transport.is_closed for each in (client, dripping, busy, subscriber)]
    assert ended == [True, True, False, False]
    assert world.broker.limit_counts.counts == {Limit.IDLE_TIMEOUT: 2}
    assert await busy.say(b"PING") == b"+PONG\r\n"


class Lingering(FakeTransport):
    """Goes on after `close` until the peer has taken everything, as real ones do."""

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.lose)


@pytest.mark.parametrize("words", [(b"ECHO", b"long"), (b"QUIT",)], ids=["stays", "has said goodbye"])
async def test_who_does_not_take_its_replies_is_idle(words, world, server, client):
    """Else it has its connection, and what waits for it, for as long as it likes."""
    client.transport.lose()
    connection = server()
    transport = Lingering(connection)
    transport.high_water_bytes = 3
    connection.connection_made(transport)
    connection.data_received(command(*words) + command(b"PING"))
    idle_watch, clock = watch(world, server)
    for clock.now_seconds in (0, 99):
        await idle_watch.look()
    await settle_down()
    assert list(server.connections.values()) == [connection]
    clock.now_seconds = 100
    await idle_watch.look()
    await settle_down()
    assert not server.connections


async def test_who_takes_its_replies_slowly_is_not_idle(world, server, client):
    client.transport.high_water_bytes = 5
    client.connection.data_received(command(b"ECHO", bytes(40_000)) * 10)
    idle_watch, clock = watch(world, server)
    for clock.now_seconds in (0, 99, 198, 297, 396):
        await idle_watch.look()
        assert 0 < client.transport.take().count(b"$40000") <= 2
        client.connection.resume_writing()
        await settle_down()
    assert not client.transport.is_closed


async def test_who_waits_for_a_reply_is_not_idle(world, server, client):
    world.store.may_write.clear()
    await client.say(b"PUBLISH t x")
    idle_watch, clock = watch(world, server)
    for clock.now_seconds in (0, 1000):
        await idle_watch.look()
    assert not client.transport.is_closed
    world.store.may_write.set()
    await settle_down()
    for clock.now_seconds in (1001, 1050):
        await idle_watch.look()
    assert not client.transport.is_closed
    clock.now_seconds = 1101
    await idle_watch.look()
    assert client.transport.is_closed


async def test_a_look_that_fails_unexpectedly_is_logged_and_the_next_one_comes():
    looks, clock = [], Clock()

    def fail():
        looks.append(clock())
        raise RuntimeError("unexpected")

    async def sleep(seconds):
        assert seconds == 25.0
        if len(looks) == 4:
            raise asyncio.CancelledError
        clock.now_seconds += seconds

    idle_watch = IdleWatch(fail, 100.0, LimitCounts(), clock)
    with structlog.testing.capture_logs() as logged, pytest.raises(asyncio.CancelledError):
        await idle_watch.run(sleep)
    assert len(looks) == 4
    event = "could not look for idle connections"
    assert [(entry["event"], entry["held_back"]) for entry in logged] == [(event, 0), (event, 2)]
