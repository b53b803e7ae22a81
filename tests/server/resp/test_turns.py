"""A client with much to do does not keep the others waiting: its commands are carried out a turn at a time."""

import asyncio
from functools import partial
from itertools import pairwise

import pytest

from miniqueue.broker.runtime.share import OTHERS_FACTOR
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.server.resp.connection import (
    FULL_READ_BYTES,
    MAX_LAST_COMMANDS,
    MAX_ONE_BY_ONE,
    MAX_REPLIES_BYTES,
    STEP_COMMANDS,
)
from miniqueue.server.resp.incoming import MAX_READ_BYTES
from miniqueue.server.resp.turns import MIN_SHARE_SECONDS, SHORT_PART, TURN_SECONDS, LoopShare
from tests.fakes import settle_down
from tests.server.protocols.speakers import HttpSpeaker
from tests.server.resp.clients import Client, command, started_server
from tests.server.resp.victim import resp_victim

PONG = b"+PONG\r\n"
#: How long a command takes in these tests: in a turn there is time for this many, and for some until the next look.
COMMAND_SECONDS = TURN_SECONDS / 256
IN_TURN = 256 + 2 * STEP_COMMANDS
IN_SHORT_TURN = 32 + STEP_COMMANDS


class Clock:
    """A clock that moves only when work is done."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Every PING takes its time; turns go by it."""
    clock = Clock()
    ping = COMMANDS[b"PING"]

    def run(connection, words):
        clock.seconds += COMMAND_SECONDS
        return ping.run(connection, words)

    monkeypatch.setitem(COMMANDS, b"PING", ping._replace(run=run))
    monkeypatch.setattr("miniqueue.server.resp.server.LoopShare", partial(LoopShare, clock=clock))
    return clock


async def test_more_commands_than_a_turn_has_time_for_leave_it_to_others(server, client):
    other = Client(server)
    client.connection.data_received(command(b"PING") * 1000)
    carried_out = client.transport.take().count(PONG)
    assert 256 <= carried_out <= IN_TURN
    assert not client.transport.is_reading()
    other.send(b"PING")
    assert other.transport.take() == PONG
    await settle_down()
    assert client.transport.take() == PONG * (1000 - carried_out)
    assert client.transport.is_reading()


async def test_each_turn_is_one_however_it_came_about(client):
    """Else turns would make more turns."""
    client.connection.data_received(command(b"PING") * 3000)
    for _ in range(7):
        client.transport.take()
        await asyncio.sleep(0)
        assert 256 <= client.transport.written.count(PONG) <= IN_TURN


async def test_turns_are_short_while_others_are_there_and_then_long_again(server, client):
    other = Client(server)
    client.connection.data_received(command(b"PING") * 12_000)
    client.transport.take()
    other.send(b"PING")
    shares = []
    while not client.transport.is_reading():
        await asyncio.sleep(0)
        shares.append(client.transport.take().count(PONG))
    assert max(shares[:64]) <= IN_SHORT_TURN
    assert min(shares[64:-1]) >= 256


async def test_turns_are_short_while_a_client_of_http_is_there(world, client):
    """Only clients of RESP were seen: one of HTTP met turns of full length."""
    client.connection.data_received(command(b"PING") * 12_000)
    publishing, shares = asyncio.create_task(HttpSpeaker(world).publish("t", b"x")), []
    while not client.transport.is_reading():
        client.transport.take()
        await asyncio.sleep(0)
        shares.append(client.transport.written.count(PONG))
    assert len([share for share in shares if 0 < share <= IN_SHORT_TURN]) >= 64
    await publishing


@pytest.mark.parametrize("count", [1, 2])
async def test_a_publish_that_a_client_waits_for_meets_few_turns(server, client, count):
    """Otherwise it would meet one in each iteration that it takes: those that gather publishes have none."""
    others = [Client(server) for _ in range(count)]
    client.connection.data_received(command(b"PING") * 12_000)
    turns = []
    for _ in range(10):
        for other in others:
            other.connection.data_received(command(b"PUBLISH", b"t", b"x"))
        client.transport.take()
        turns.append(0)
        while not all(other.transport.take() for other in others):
            await asyncio.sleep(0)
            turns[-1] += bool(client.transport.take())
    assert max(turns) <= 3, turns


async def test_one_command_that_takes_long_ends_the_turn_with_its_reply(monkeypatch, clock):
    def slow(_connection, _words):
        clock.seconds += TURN_SECONDS
        return b"$5000\r\n%b\r\n" % bytes(5000)

    monkeypatch.setitem(COMMANDS, b"ECHO", COMMANDS[b"ECHO"]._replace(run=slow))

    async with started_server() as (_world, _server, client):
        client.connection.data_received(command(b"ECHO", b"") * 40)
        for _ in range(5):
            assert client.transport.take().count(b"$5000\r\n") == 1
            await asyncio.sleep(0)


async def test_what_comes_when_the_turn_is_over_is_not_even_read_of_who_had_much_before(server, client):
    flooding = [client, *(Client(server) for _ in range(9))]
    for each in flooding:
        each.connection.data_received(command(b"PING") * 500)
    for each in flooding:
        each.connection.data_received(command(b"PING") * 700)
        assert len(each.connection._incoming.postponed) <= 500
    for _ in range(200):
        await asyncio.sleep(0)
    for each in flooding:
        assert each.transport.take() == PONG * 1200


async def test_a_run_of_publishes_is_one_command(client):
    count = 2000
    client.connection.data_received(command(b"PUBLISH", b"t", b"x") * count)
    assert client.transport.is_reading()
    await settle_down()
    assert client.transport.take() == b"+OK\r\n" * count


RUN = [command(b"PUBLISH", b"t", b"x" * (number % 3)) for number in range(500)]
MISNAMED = [command(b"MULTI"), *[command(b"PUBLISH", b"a/b", b"x")] * 500, command(b"EXEC")]


async def replies_to(before: list[bytes], *reads: bytes) -> bytes:
    """Return the replies to what comes in these reads; others have a turn before a long one is answered."""
    async with started_server() as (_, server, client):
        for line in before:
            await client.say(line)
        count_before = server.commands_processed
        for read in reads:
            client.connection.data_received(read)
            assert server.commands_processed - count_before <= MAX_ONE_BY_ONE + 2
            await settle_down()
            count_before = server.commands_processed
        return client.transport.take()


@pytest.mark.parametrize(
    ("before", "commands"),
    [
        ([b"TOPIC CREATE t max_message_bytes 1"], RUN),
        ([b'TOPIC CREATE t schema {"type":"object"}'], RUN),
        ([b"SUBSCRIBE __keyspace@0__:t"], RUN),
        ([b"MULTI", b"WATCH t"], RUN),
        ([], MISNAMED),
    ],
    ids=["some too large", "none fits", "with channels", "a refused transaction", "a transaction to refuse"],
)
async def test_a_run_of_which_messages_are_refused_leaves_turns_to_others(before, commands):
    commands = [*commands, command(b"PUBLISH", b"other", b"x"), command(b"PING")]
    assert await replies_to(before, b"".join(commands)) == await replies_to(before, *commands)


async def test_a_read_that_is_full_is_the_last_of_its_turn(client):
    begun = command(b"ECHO", bytes(2 * FULL_READ_BYTES))
    client.connection.data_received(begun[:FULL_READ_BYTES])
    assert not client.transport.is_reading()
    await settle_down()
    assert client.transport.is_reading()


async def test_who_leaves_between_turns_leaves_nothing_behind(server, client):
    client.connection.data_received(command(b"PING") * 1000)
    client.transport.lose()
    await settle_down()
    assert client.transport.take().count(PONG) <= IN_TURN
    assert not server.connections


async def test_the_order_of_replies_is_kept_when_more_arrives_between_turns(client):
    words = [b"%d" % number for number in range(1024)]
    for word in words:
        client.connection.data_received(command(b"ECHO", word))
    client.connection.data_received(b"".join(command(b"ECHO", word) for word in words))
    client.connection.data_received(command(b"ECHO", b"last"))
    await settle_down()
    said = client.transport.take().split(b"\r\n")[1::2]
    assert said == [*words, *words, b"last"]


@pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "plain"])
async def test_what_is_left_of_a_turn_is_carried_out_when_the_client_ends(is_tls, clock, world, server):
    """Over TLS the last bytes and the goodbye can come in one turn."""
    client = Client(server, is_tls=is_tls)
    count = MAX_LAST_COMMANDS // 4
    reads = (command(b"PUBLISH", b"a", b"x") + command(b"PUBLISH", b"b", b"x")) * count
    client.connection.data_received(reads)
    client.connection.eof_received()
    clock.seconds += 1
    await settle_down()
    published = {name: stats.published for name, stats in world.broker.stats().items()}
    assert published == {b"a": count, b"b": count}
    assert client.transport.take() == b"+OK\r\n" * (2 * count)


# --- among connections -------------------------------------------------------------------------------------------


def taken(clients):
    """How many PINGs each has been answered since the last look."""
    return [client.transport.take().count(PONG) for client in clients]


async def test_a_turn_is_shared_by_all_who_have_much(clock, server, client):
    flooding = [client, *(Client(server) for _ in range(19))]
    for each in flooding:
        each.connection.data_received(command(b"PING") * 600)
    left = 20 * 600 - sum(taken(flooding))
    while left:
        innocent = Client(server)
        innocent.send(b"PING")
        assert innocent.transport.take() == PONG
        begun = clock.seconds
        await asyncio.sleep(0)
        assert clock.seconds - begun <= TURN_SECONDS * SHORT_PART + STEP_COMMANDS * COMMAND_SECONDS
        answered = sum(taken(flooding))
        assert answered > 0
        left -= answered


@pytest.mark.parametrize("turn_seconds", [0.0001, 0.001, 0.02])
async def test_how_long_a_turn_is_can_be_set(turn_seconds):
    clock = Clock()
    takes_seconds = MIN_SHARE_SECONDS / 10

    def go_on(until):
        while clock() < until:
            clock.seconds += takes_seconds
        turns.queue(go_on)

    turns = LoopShare(turn_seconds, clock)
    for _ in range(8):
        turns.queue(go_on)
    for _ in range(6):
        begun = clock()
        await asyncio.sleep(0)
        assert turn_seconds <= clock() - begun + takes_seconds <= turn_seconds + MIN_SHARE_SECONDS + takes_seconds


async def test_who_has_much_is_served_round_robin(server, client):
    flooding = [client, *(Client(server) for _ in range(19))]
    for each in flooding:
        each.connection.data_received(command(b"PING") * 1024)
    for _ in range(10):
        taken(flooding)
        for _ in range(5):
            await asyncio.sleep(0)
        served = sorted(taken(flooding))
        assert served[-1] - served[0] <= 2 * STEP_COMMANDS


@pytest.mark.parametrize(
    "said",
    [b"PING\r\n", command(b"PING"), b"\n\nPING\r\n", command(b"PING", b"*1000") + command(b"PING") * 9],
    ids=["inline", "arrays", "with empty lines", "for the strict parser"],
)
async def test_what_is_read_in_a_turn_is_bounded_however_it_is_said(said, client):
    connection = client.connection
    connection.data_received((said * (FULL_READ_BYTES // len(said) + 1))[:FULL_READ_BYTES])
    most = MAX_READ_BYTES // len(command(b"PING"))
    while not client.transport.is_reading():
        assert len(connection._incoming.postponed) <= most
        assert client.transport.take().count(PONG) <= IN_TURN
        await asyncio.sleep(0)


async def test_long_replies_end_a_turn(client):
    client.connection.data_received(command(b"COMMAND", b"INFO") * 500)
    for _ in range(10):
        assert len(client.transport.take()) <= MAX_REPLIES_BYTES + 8192
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "plain"])
async def test_a_million_commands_are_answered_and_others_in_between(certificates, monkeypatch, clock, is_tls):
    """Whoever sends one command beside them has its answer when a few turns' worth of the flood has been answered."""
    carried_out = 0

    def echo(_connection, words):
        nonlocal carried_out
        carried_out += 1
        clock.seconds += TURN_SECONDS / 512
        return PONG

    monkeypatch.setitem(COMMANDS, b"ECHO", COMMANDS[b"ECHO"]._replace(run=echo))
    async with resp_victim(certificates, is_tls=is_tls) as victim:
        flooding, innocent = await victim.peer(), await victim.peer()
        reading = asyncio.create_task(flooding.reader.readexactly(1_000_000 * len(PONG)))
        sending = asyncio.create_task(flooding.say(command(b"ECHO", b"") * 1_000_000))
        ahead = []
        while not reading.done():
            before = carried_out
            await innocent.say(command(b"PING"))
            assert await innocent.until(b"\r\n") == PONG
            ahead.append(carried_out - before)
        await sending
    assert carried_out == 1_000_000
    assert len(ahead) > 200
    assert max(ahead) <= 16 * 512


@pytest.mark.slow
async def test_a_half_closed_connection_gets_every_reply(certificates):
    async with resp_victim(certificates, is_tls=False) as victim:
        peer = await victim.peer()
        sending = asyncio.create_task(peer.say(b"PING\r\n" * 50_000))
        sending.add_done_callback(lambda _: peer.writer.write_eof())
        assert await peer.until_over() == PONG * 50_000


@pytest.mark.parametrize("words", [(b"TOPICS",), (b"INFO", b"keyspace"), (b"CLIENT", b"LIST")])
async def test_what_looks_at_everything_has_a_turn_of_its_own(server, client, words):
    client.connection.data_received(command(*words) * 20 + command(b"ECHO", b"last"))
    (reply,) = await turns_with_a_reply(client, 1)
    others = await turns_with_a_reply(client, 19)
    assert {len(other) for other in others} == {len(reply)}
    await settle_down()
    assert client.transport.take() == b"$4\r\nlast\r\n"


async def turns_with_a_reply(client, count: int) -> list[bytes]:
    """Return what was sent in each turn of the loop in which something was sent, for so many of them."""
    sent: list[bytes] = []
    while len(sent) < count:
        await asyncio.sleep(0)
        sent += filter(None, [client.transport.take()])
    return sent


async def test_a_command_that_takes_longer_than_a_turn_leaves_others_three_times_as_long(monkeypatch, clock):
    def slow(_connection, _words):
        clock.seconds += 1
        return b"$5000\r\n%b\r\n" % bytes(5000)

    monkeypatch.setitem(COMMANDS, b"ECHO", COMMANDS[b"ECHO"]._replace(run=slow))
    async with started_server() as (_world, _server, client):
        client.connection.data_received(command(b"ECHO", b"") * 20)
        answered_in = []
        for iteration in range(6 * 10 * OTHERS_FACTOR):
            if client.transport.take():
                answered_in.append(iteration)
            clock.seconds += 0.1  # other tasks run
            await asyncio.sleep(0)
    waited = [after - before for before, after in pairwise(answered_in[1:])]
    assert len(waited) > 2
    assert min(waited) >= 10 * OTHERS_FACTOR
