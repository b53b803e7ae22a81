"""Members of a group of a spread topic: each has an equal share of the partitions of all parts."""

from collections.abc import Callable

import hiredis
import pytest

from miniqueue.core.message.parts import PART_BITS
from tests.server.shards.http.fleet import COUNT, TOPICS, Fleet
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.clients import DoorClient

TOPIC = TOPICS[1].encode()
PARTS = 6
PARTITIONS = [part << PART_BITS | number for part in range(PARTS) for number in range(2)]
GROUP = (b"GROUP", b"mail")


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    """A client for which the topic has been created."""
    client = connect()
    settings = b"spread", b"%d" % PARTS, b"partitions", b"2"
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
    assert await client.ask(b"GROUP", b"CREATE", TOPIC, b"mail") == b"+OK\r\n"
    return client


def value_of(reply: bytes):
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


async def members(client: DoorClient) -> dict[bytes, list[int]]:
    words = value_of(await client.ask(b"GROUP", b"MEMBERS", TOPIC, b"mail"))
    return dict(zip(words[::2], words[1::2], strict=True))


async def shares(client: DoorClient) -> list[int]:
    """Return how many partitions each member has, of all that there are."""
    found = await members(client)
    assert sorted(number for numbers in found.values() for number in numbers) == PARTITIONS
    return sorted(map(len, found.values()))


async def subscribe(stream: DoorClient, member: bytes) -> None:
    """Begin the stream of a member; return when all parts have."""
    stream.tell((b"SUBSCRIBE", TOPIC, b"PREFETCH", b"100", *GROUP, b"MEMBER", member))
    assert await stream.ask(b"PING") == b"+PONG\r\n"


def pass_time(fleet: Fleet, seconds: int) -> None:
    """Advance the clock, a second for each tick: longer gaps between ticks do not count for sessions."""
    for _ in range(seconds):
        fleet.clock.advance(1)
        for member in fleet.members:
            member.broker.tick()


async def leased_by(client: DoorClient, member: bytes) -> int:
    """Return how many messages a member holds."""
    return len(value_of(await client.ask(b"LEASES", TOPIC, *GROUP, b"MEMBER", member, b"COUNT", b"1000")))


async def test_streams_of_members_share_the_partitions_of_all_parts(client, connect):
    streams = [connect(number % COUNT) for number in range(5)]
    for number, stream in enumerate(streams):
        await subscribe(stream, b"m%d" % number)
        each = await shares(client)
        assert len(each) == number + 1
        assert each[-1] - each[0] <= 1
    streams.pop(1).transport.lose()
    while len(await members(client)) > 4:  # until all parts know
        pass
    assert await shares(client) == [3, 3, 3, 3]


async def test_all_messages_of_a_key_go_to_one_member(client, connect):
    streams = [connect(number) for number in range(COUNT)]
    for number, stream in enumerate(streams):
        await subscribe(stream, b"m%d" % number)
    published = [(b"k%d" % (number % 20), b"%d" % number) for number in range(60)]
    for key, payload in published:
        await client.ask(b"PUB", TOPIC, payload, b"KEY", key)
    assert sum([await leased_by(client, b"m%d" % number) for number in range(COUNT)]) == len(published)
    member_of: dict[bytes, set[int]] = {}
    for number, stream in enumerate(streams):
        for reply in await stream.hear(await leased_by(client, b"m%d" % number)):
            _, _, words = value_of(reply)
            member_of.setdefault(words[words.index(b"key") + 1], set()).add(number)
    assert len(member_of) == 20
    assert {len(numbers) for numbers in member_of.values()} == {1}


@pytest.mark.parametrize(
    ("word", "topics"),
    [
        (b"RECEIVE", ()),
        (b"RECEIVEANY", (b"TOPICS", TOPIC)),
        (b"RECEIVEANY", (b"PATTERN", TOPIC + b"*")),
    ],
)
async def test_a_member_that_receives_stays_in_all_parts_whichever_has_its_messages(
    client, connect, fleet, word, topics
):
    workers = [connect(number) for number in range(2)]
    for number in range(10 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    for _ in range(8):  # far longer than a session
        for number, worker in enumerate(workers):
            options = *GROUP, b"MEMBER", b"m%d" % number, b"AUTOACK"
            received = value_of(await worker.ask(word, *([] if topics else [TOPIC]), *options, *topics))
            assert len(received) == 1
        assert await shares(client) == [PARTS, PARTS]
        pass_time(fleet, 6)
    pass_time(fleet, 12)
    assert await members(client) == {}


async def test_a_member_that_waits_is_in_all_parts(client, connect):
    worker = connect(2)
    worker.tell((b"RECEIVE", TOPIC, *GROUP, b"MEMBER", b"m", b"WAIT", b"60"))
    while await members(client) == {}:
        pass
    assert await shares(client) == [2 * PARTS]
    await client.ask(b"PUB", TOPIC, b"x")
    [reply] = await worker.hear()
    assert value_of(reply)[0][1] == b"x"


async def test_a_member_that_joins_all_parts_is_one_event(client, connect, fleet):
    ear = connect(1)
    assert await ear.ask(b"EVENTS", b"member-joined", b"group-created") == b"+OK\r\n"
    await until(lambda: all(member.broker.notices.is_heard for member in fleet.members))
    await subscribe(connect(), b"m")
    await client.ask(b"GROUP", b"CREATE", TOPIC, b"last")
    kinds = [value_of(event)[1] for event in await ear.hear(2)]
    assert sorted(kinds) == [b"group-created", b"member-joined"]


async def test_members_and_other_consumers_do_not_mix(client, connect):
    await subscribe(connect(), b"m")
    assert (await client.ask(b"RECEIVE", TOPIC, *GROUP)).startswith(b"-MEMBERS")
    assert (await client.ask(b"SUBSCRIBE", TOPIC, *GROUP)).startswith(b"-MEMBERS")
    assert (await client.ask(b"RECEIVE", TOPIC, *GROUP, b"MEMBER", b"a b")).startswith(b"-BADMEMBER")
    assert await client.ask(b"PING") == b"+PONG\r\n"
