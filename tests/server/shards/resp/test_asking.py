"""Commands that all parts of a spread topic carry out, each its own, and whose replies become one."""

from collections.abc import Callable

import pytest

from miniqueue.core.message.parts import part_for, part_name
from miniqueue.core.options.start import parse_start
from tests.server.shards.http.fleet import TOPICS, topic_in
from tests.server.shards.resp.clients import DoorClient
from tests.server.shards.resp.replies import map_of, value_of

TOPIC = TOPICS[1].encode()
LETTERS = TOPIC + b".dlq"
PARTS = 5
KEYS = [b"key-%d" % number for number in range(12)]


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    """A client that has published a message of each key."""
    client = connect()
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    for key in KEYS:
        await client.ask(b"PUB", TOPIC, b"of " + key, b"KEY", key)
    return client


async def ids_of(client: DoorClient) -> dict[bytes, bytes]:
    """Return the id of the message of each key."""
    messages = value_of(await client.ask(b"PEEK", TOPIC, b"COUNT", b"100"))
    return {payload.removeprefix(b"of "): message_id for message_id, payload, _ in messages}


async def dead_letters(client: DoorClient) -> None:
    """Make dead letters of all messages."""
    received = value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100"))
    for receipt, _, _ in received:
        assert await client.ask(b"REJECT", TOPIC, receipt, b"SYNC", b"wrong") == b"+OK\r\n"


# --- figures --------------------------------------------------------------------------------------------------


async def test_figures_are_those_of_all_parts(client):
    received = value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"7"))
    assert len(received) == 7
    figures = map_of(value_of(await client.ask(b"STATS", TOPIC)))
    assert [figures[name] for name in (b"depth", b"ready", b"leased", b"published")] == [12, 5, 7, 12]
    assert (figures[b"paused_in"], figures[b"oldest_seconds"]) == (0, b"0.0")
    group = map_of(value_of(await client.ask(b"STATS", TOPIC, b"GROUP", b"default")))
    assert (group[b"name"], group[b"lag"], group[b"ready"], group[b"leased"]) == (b"default", 12, 5, 7)
    assert len(group[b"position"]) == PARTS
    assert sum(map_of(group[b"lags"]).values()) == 12
    assert value_of(await client.ask(b"GROUP", b"LIST", TOPIC))[0][:2] == [b"name", b"default"]
    [holder] = value_of(await client.ask(b"GROUP", b"HOLDERS", TOPIC, b"default"))
    assert map_of(holder)[b"leased"] == 7


async def test_figures_have_the_types_of_version_3_of_the_protocol(client):
    await client.ask(b"HELLO", b"3")
    figures = value_of(await client.ask(b"STATS", TOPIC))
    assert (figures[b"depth"], figures[b"paused_in"], type(figures[b"publish_rate_10s"])) == (12, False, float)
    [group] = value_of(await client.ask(b"GROUP", b"LIST", TOPIC))
    assert group[b"members"] == {}


async def test_a_group_is_created_shown_paused_and_deleted_as_a_whole(client):
    assert (await client.ask(b"LEN", TOPIC, b"GROUP", b"audit")).startswith(b"-NOGROUP")
    assert await client.ask(b"GROUP", b"CREATE", TOPIC, b"audit", b"FROM", b"latest") == b"+OK\r\n"
    assert await client.ask(b"LEN", TOPIC, b"GROUP", b"audit") == b":0\r\n"
    names = [map_of(group)[b"name"] for group in value_of(await client.ask(b"GROUP", b"LIST", TOPIC))]
    assert names == [b"audit", b"default"]
    assert await client.ask(b"PAUSE", TOPIC, b"GROUP", b"audit") == b"+OK\r\n"
    assert map_of(value_of(await client.ask(b"STATS", TOPIC, b"GROUP", b"audit")))[b"paused"] == 1
    assert await client.ask(b"RESUME", TOPIC, b"GROUP", b"audit") == b"+OK\r\n"
    assert await client.ask(b"GROUP", b"DELETE", TOPIC, b"audit") == b"+OK\r\n"
    assert (await client.ask(b"GROUP", b"DELETE", TOPIC, b"audit")).startswith(b"-NOGROUP")


async def test_a_group_begins_at_a_message_in_its_part_and_at_its_time_in_the_others(client, fleet):
    before = await ids_of(client)
    fleet.clock.advance(10)
    later = value_of(await client.ask(b"PUB", TOPIC, b"later", b"KEY", KEYS[0]))
    for key in KEYS[1:]:
        await client.ask(b"PUB", TOPIC, b"later", b"KEY", key)
    assert await client.ask(b"GROUP", b"CREATE", TOPIC, b"audit", b"FROM", later) == b"+OK\r\n"
    assert await client.ask(b"LEN", TOPIC, b"GROUP", b"audit") == b":12\r\n"
    moved = map_of(value_of(await client.ask(b"GROUP", b"SEEK", TOPIC, b"audit", b"latest", b"DRYRUN")))
    assert moved == {b"before": 12, b"after": 0}
    of_parts = {part_for(key, PARTS): before[key] for key in reversed(KEYS)}  # the first of each part
    moved = map_of(value_of(await client.ask(b"GROUP", b"SEEK", TOPIC, b"audit", b",".join(of_parts.values()))))
    assert moved == {b"before": 12, b"after": 24}
    assert (await client.ask(b"GROUP", b"SEEK", TOPIC, b"audit", b"2048-999")).startswith(b"-BADOPTION")
    assert await client.ask(b"LEN", TOPIC, b"GROUP", b"audit") == b":24\r\n"


# --- pages ----------------------------------------------------------------------------------------------------


async def test_pages_of_messages_follow_each_other_through_all_parts(client):
    seen, after = [], ()
    while page := value_of(await client.ask(b"PEEK", TOPIC, b"COUNT", b"5", *after)):
        seen += [payload for _, payload, _ in page]
        after = b"AFTER", page[-1][0]
    assert sorted(seen) == sorted(b"of " + key for key in KEYS)
    message_id = (await ids_of(client))[KEYS[3]]
    assert value_of(await client.ask(b"PEEK", TOPIC, b"ID", message_id))[:2] == [message_id, b"of " + KEYS[3]]
    assert value_of(await client.ask(b"PEEK", TOPIC, b"STATE", b"leased")) == []
    assert (await client.ask(b"PEEK", TOPIC, b"GROUP", b"none")).startswith(b"-NOGROUP")


@pytest.mark.parametrize("options", [(b"COUNT", b"3"), (b"SCAN", b"2"), (b"COUNT", b"1", b"SCAN", b"1")])
async def test_a_search_goes_on_through_all_parts(client, options):
    found, after = [], ()
    while True:
        page = map_of(value_of(await client.ask(b"SEARCH", TOPIC, b"CONTAINS", b"key", *options, *after)))
        found += [payload for _, payload, _ in page[b"messages"]]
        if page[b"next"] is None:
            break
        after = b"AFTER", page[b"next"]
    assert sorted(found) == sorted(b"of " + key for key in KEYS)


async def test_leases_are_listed_in_pages(client):
    receipts = [receipt for receipt, _, _ in value_of(await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100"))]
    listed, after = [], ()
    while page := value_of(await client.ask(b"LEASES", TOPIC, b"GROUP", b"default", b"COUNT", b"5", *after)):
        assert {map_of(row)[b"topic"] for row in page} == {TOPIC}
        listed += [map_of(row)[b"receipt"] for row in page]
        after = b"AFTER", listed[-1]
    assert sorted(listed) == sorted(receipts)
    assert value_of(await client.ask(b"LEASES", TOPIC)) == []
    assert value_of(await client.ask(b"LEASES")) == []


# --- acts on messages -----------------------------------------------------------------------------------------


async def test_an_act_on_one_message_is_carried_out_in_its_part(client):
    ids = await ids_of(client)
    assert value_of(await client.ask(b"MESSAGE", b"DELETE", TOPIC, ids[KEYS[0]])) == ids[KEYS[0]]
    assert value_of(await client.ask(b"MESSAGE", b"FRONT", TOPIC, ids[KEYS[1]])) == ids[KEYS[1]]
    assert (await client.ask(b"MESSAGE", b"DELETE", TOPIC, ids[KEYS[0]])).startswith(b"-NOMESSAGE")
    assert await client.ask(b"LEN", TOPIC) == b":11\r\n"


async def test_acts_on_many_messages_keep_their_limit(client):
    assert await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"LIMIT", b"5", b"DRYRUN") == b":5\r\n"
    assert await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"KEY", KEYS[4]) == b":1\r\n"
    assert await client.ask(b"MESSAGES", b"FRONT", TOPIC, b"CONTAINS", b"key") == b":11\r\n"
    assert await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"LIMIT", b"5") == b":5\r\n"
    assert await client.ask(b"PURGE", TOPIC, b"STATE", b"ready") == b":6\r\n"
    assert (await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"LIMIT", b"0")).startswith(b"-ERR")


async def test_dead_letters_are_redriven_to_their_limit(client):
    await dead_letters(client)
    assert map_of(value_of(await client.ask(b"REDRIVE", LETTERS, b"LIMIT", b"4", b"REPORT"))) == {
        b"moved": 4,
        b"remaining": 8,
        b"error": None,
    }
    assert await client.ask(b"REDRIVE", LETTERS, b"LIMIT", b"3") == b":3\r\n"
    assert await client.ask(b"MESSAGES", b"REDRIVE", LETTERS, b"LIMIT", b"2") == b":2\r\n"
    [letter] = value_of(await client.ask(b"PEEK", LETTERS, b"COUNT", b"1"))
    assert value_of(await client.ask(b"MESSAGE", b"REDRIVE", LETTERS, letter[0])) == letter[0]
    assert await client.ask(b"REDRIVE", LETTERS) == b":2\r\n"
    assert await client.ask(b"LEN", TOPIC) == b":12\r\n"


async def test_dead_letters_are_redriven_to_a_topic_of_another_shard(client, fleet):
    await dead_letters(client)
    target = topic_in(2, "target").encode()
    assert (await client.ask(b"REDRIVE", LETTERS, b"TO", LETTERS)).startswith(b"-ERR")
    assert await client.ask(b"REDRIVE", LETTERS, b"TO", target, b"LIMIT", b"5") == b":5\r\n"
    assert await client.ask(b"MESSAGES", b"REDRIVE", LETTERS, b"TO", target) == b":7\r\n"


async def test_an_error_of_one_part_is_reported_with_what_the_others_did(client):
    await dead_letters(client)
    assert await client.ask(b"PAUSE", TOPIC, b"IN") == b"+OK\r\n"
    reply = await client.ask(b"REDRIVE", LETTERS)
    assert reply.startswith(b"-PAUSED ")
    assert reply.endswith(b"; 0 were moved, 12 remain\r\n")


# --- tasks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((b"MESSAGES", b"DELETE", TOPIC, b"TASK"), 12),
        ((b"MESSAGES", b"DELETE", TOPIC, b"LIMIT", b"3", b"TASK"), None),
        ((b"PURGE", TOPIC, b"TASK"), 12),
    ],
)
async def test_a_task_is_one_in_each_part(client, words, count):
    task = value_of(await client.ask(*words))
    shown = map_of(value_of(await client.ask(b"TASK", b"GET", task)))
    assert (shown[b"id"], shown[b"topic"], shown[b"act"]) == (task, TOPIC, b"delete")
    for _ in range(1000):
        shown = map_of(value_of(await client.ask(b"TASK", b"GET", task)))
        if shown[b"status"] != b"running":
            break
    assert shown[b"status"] == b"done"
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % (12 - shown[b"count"])
    assert shown[b"count"] == count or (count is None and 0 < shown[b"count"] <= 3)
    assert await client.ask(b"TASK", b"CANCEL", task) == b"+OK\r\n"
    assert {map_of(row)[b"topic"] for row in value_of(await client.ask(b"TASK", b"LIST"))} == {TOPIC}


async def test_a_task_that_cannot_begin_in_a_part_is_cancelled_in_the_others(client, fleet):
    name = part_name(TOPIC, 4)
    await fleet.broker_with(name.decode()).groups.create(name, b"audit", parse_start(b"latest"))
    await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"GROUP", b"audit", b"TASK")  # the others do not have it
    assert [map_of(row)[b"count"] for row in value_of(await client.ask(b"TASK", b"LIST"))] == [0]
    assert (await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"GROUP", b"none", b"TASK")).startswith(b"-NOGROUP")
    fleet.lose(2)
    assert (await client.ask(b"MESSAGES", b"DELETE", TOPIC, b"TASK")).startswith(b"-TRYAGAIN")
    present = [task for member in fleet.members[:2] for task in member.broker.tasks if task.group is None]
    assert all(task.ended_at_ms for task in present)
    assert present
