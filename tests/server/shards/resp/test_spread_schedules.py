"""Schedules of a spread topic: each is in one part, that of its key, or of its name."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from miniqueue.core.cursor.receipts import part_of_receipt
from miniqueue.core.message.parts import part_for, part_name
from miniqueue.errors import ReadOnlyError
from miniqueue.errors.requests import RefusedPartError
from tests.fakes import settle_down
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS, Fleet
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import map_of, value_of

TOPIC = TOPICS[1].encode()
PARTS = 5


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    return client


async def tick(fleet: Fleet) -> None:
    for member in fleet.members:
        member.broker.tick()
    await settle_down()


async def move(fleet: Fleet) -> None:
    """Do what each shard does when it finds that schedules have their part in another shard."""
    for member in fleet.members:
        await member.shard.steps.move()


async def test_a_schedule_fires_into_the_part_of_its_key(client, fleet):
    options = b"EVERY", b"5", b"KEY", b"k", b"HEADER", b"KEY", b"other"
    assert await client.ask(b"SCHEDULE", b"SET", b"beat", *options, TOPIC, b"x") == b"+OK\r\n"
    fired = value_of(await client.ask(b"SCHEDULE", b"FIRE", b"beat"))
    assert int(fired.partition(b"-")[0]) >> 10 == part_for(b"k", PARTS)
    assert map_of(value_of(await client.ask(b"SCHEDULE", b"GET", b"beat")))[b"topic"] == TOPIC
    [listed] = value_of(await client.ask(b"SCHEDULE", b"LIST"))
    assert map_of(listed)[b"topic"] == TOPIC
    fleet.clock.advance(6)
    await tick(fleet)
    assert await client.ask(b"LEN", TOPIC) == b":2\r\n"
    assert await client.ask(b"SCHEDULE", b"DELETE", b"beat") == b"+OK\r\n"


async def test_a_schedule_without_a_key_is_in_the_part_of_its_name(client):
    for _ in range(2):
        assert await client.ask(b"SCHEDULE", b"SET", b"beat", b"EVERY", b"5", TOPIC, b"x") == b"+OK\r\n"
    fired = value_of(await client.ask(b"SCHEDULE", b"FIRE", b"beat"))
    assert int(fired.partition(b"-")[0]) >> 10 == part_for(b"beat", PARTS)
    assert len(value_of(await client.ask(b"SCHEDULE", b"LIST"))) == 1


@pytest.mark.parametrize("parts", [b"", b"4", b"5"])
async def test_a_schedule_never_creates_a_part_of_a_topic_that_was_deleted(client, fleet, parts):
    key = next(key for number in range(100) if part_for(key := b"%d" % number, PARTS) == PARTS - 1)
    assert await client.ask(b"SCHEDULE", b"SET", b"beat", b"EVERY", b"5", b"KEY", key, TOPIC, b"x") == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    if parts:
        assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", parts) == b"+OK\r\n"
    before = [member.broker.topics() for member in fleet.members]
    if not parts:
        assert (await client.ask(b"SCHEDULE", b"FIRE", b"beat")).startswith(b"-TRYAGAIN")
    await move(fleet)
    fleet.clock.advance(6)
    await tick(fleet)
    assert [member.broker.topics() for member in fleet.members] == before
    assert await client.ask(b"LEN", TOPIC) == (b":1\r\n" if parts else b":0\r\n")
    if parts:
        [[receipt, _, _]] = value_of(await client.ask(b"RECEIVE", TOPIC))
        assert part_of_receipt(receipt) == part_for(key, int(parts))


async def test_no_client_can_schedule_messages_of_a_part(client):
    part = part_name(TOPIC, 0)
    assert (await client.ask(b"SCHEDULE", b"SET", b"beat", b"EVERY", b"5", part, b"x")).startswith(b"-BADTOPIC")


async def test_a_schedule_of_a_spread_topic_is_set_over_http_too(client, fleet):
    body = b'{"topic":"%b","every":5,"text":"x"}' % TOPIC
    assert [(await fleet.ask("PUT", "/schedules/beat", body, door=door)).status for door in (0, 1)] == [201, 200]
    assert (await fleet.ask("GET", "/schedules/beat")).json["topic"] == TOPIC.decode()
    assert len(value_of(await client.ask(b"SCHEDULE", b"LIST"))) == 1
    assert (await fleet.ask("DELETE", "/schedules/beat")).json == {"deleted": "beat"}


# --- after the topic got more parts ---------------------------------------------------------------------------

MORE = PARTS + 4


def moved_key(shard: int) -> bytes:
    """Return a key whose part is in another shard after a growth, in this one."""

    def shards_of(key: bytes) -> list[int]:
        return [PLACING.shard_of(part_name(TOPIC, part_for(key, count))) for count in (PARTS, MORE)]

    keys = (b"%d" % number for number in range(1000))
    return next(key for key in keys if shards_of(key)[0] != shards_of(key)[1] == shard)


async def ticks_in(client: DoorClient, key: bytes) -> list[int]:
    """Return the ticks of the messages of a topic, which are all in the part of a key, in their order."""
    ticks = []
    for receipt, _, attributes in value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"1000")):
        assert part_of_receipt(receipt) == part_for(key, MORE)
        ticks.append(int(dict(map_of(attributes)[b"headers"])[b"schedule-at-ms"]))
    return ticks


async def test_a_schedule_that_cannot_move_keeps_no_other_back(client, fleet, capsys):
    keys = [moved_key(shard) for shard in (0, 2)]
    for number, key in enumerate(keys):
        words = b"EVERY", b"5", b"KEY", key, TOPIC, b"x"
        assert await client.ask(b"SCHEDULE", b"SET", b"beat%d" % number, *words) == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"%d" % MORE) == b"+OK\r\n"
    fleet.members[0].broker.scheduler.take_over = refuse
    for member in fleet.members:
        with suppress(RefusedPartError):
            await member.shard.steps.move()
    assert [member.broker.scheduler.has(b"beat1") for member in fleet.members] == [False, False, True]
    assert not fleet.members[0].broker.scheduler.has(b"beat0")
    fleet.clock.advance(6)
    await tick(fleet)
    assert await client.ask(b"LEN", TOPIC) == b":1\r\n"
    assert "could not publish" not in capsys.readouterr().out


def refuse(*_arguments: object) -> None:
    raise ReadOnlyError


@pytest.mark.parametrize("shard", range(COUNT))
async def test_a_schedule_goes_on_in_the_new_part_of_its_key(client, fleet, shard):
    key = moved_key(shard)
    words = b"EVERY", b"5", b"KEY", key, b"MISSED", b"none", TOPIC, b"x"
    assert await client.ask(b"SCHEDULE", b"SET", b"beat", *words) == b"+OK\r\n"
    set_at_ms = fleet.clock.now_ms()
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"%d" % MORE) == b"+OK\r\n"
    assert (await client.ask(b"SCHEDULE", b"FIRE", b"beat")).startswith(b"-TRYAGAIN")
    fleet.clock.advance(4.9)
    await tick(fleet)
    fleet.clock.advance(0.2)  # due, and not moved yet
    await tick(fleet)
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"
    await move(fleet)
    await tick(fleet)
    fleet.clock.advance(5)
    await tick(fleet)
    assert await ticks_in(client, key) == [set_at_ms + 5000, set_at_ms + 10000]
    assert [member.broker.scheduler.has(b"beat") for member in fleet.members] == [n == shard for n in range(COUNT)]
    assert not (await client.ask(b"SCHEDULE", b"FIRE", b"beat")).startswith(b"-")
    assert await client.ask(b"SCHEDULE", b"DELETE", b"beat") == b"+OK\r\n"
