"""`POST /receive` of several shards returns what there is, waits for what comes, and leases no more than it returns."""

import asyncio
from contextlib import suppress

import pytest

from miniqueue.errors.requests import UnknownTopicError
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, fleet_in, topic_in
from tests.server.shards.http.tunnels import Client, scope_of

OF_ALL = "/receive?" + "&".join(f"topic={topic}" for topic in TOPICS)


async def counts(fleet, name: str) -> list[int]:
    """Return a count of each topic; of one that does not exist, 0."""
    counted = []
    for topic in TOPICS:
        with suppress(UnknownTopicError):
            stats = await fleet.broker_with(topic).inspect.stats(topic.encode())
            counted.append(stats[name])
            continue
        counted.append(0)
    return counted


@pytest.mark.parametrize("door", range(COUNT))
async def test_messages_of_all_shards_are_received(fleet, door):
    await fleet.publish(*TOPICS)

    received = await fleet.ask("POST", f"{OF_ALL}&count=10", door=door)

    assert sorted(line["topic"] for line in received.lines) == sorted(TOPICS)


async def test_no_more_are_leased_than_were_asked_for(fleet):
    await fleet.publish(*TOPICS, *TOPICS)

    received = await fleet.ask("POST", f"{OF_ALL}&count=4")

    assert len(received.lines) == 4
    assert sum(await counts(fleet, "leased")) == 4


async def test_each_request_begins_at_another_shard(fleet):
    await fleet.publish(*TOPICS, *TOPICS)

    first = [(await fleet.ask("POST", OF_ALL)).lines[0]["topic"] for _ in TOPICS]

    assert sorted(first) == sorted(TOPICS)


async def test_patterns_stand_for_topics_of_all_shards(fleet):
    names = [topic_in(shard, "jobs.") for shard in range(COUNT)]
    await fleet.publish(*names, TOPICS[0])

    received = await fleet.ask("POST", "/receive?pattern=jobs.*&count=10")

    assert sorted(line["topic"] for line in received.lines) == sorted(names)


@pytest.mark.parametrize("topics", [TOPICS[:1], TOPICS[1:2]])
async def test_topics_of_one_shard_are_received_there(fleet, topics):
    await fleet.publish(*topics)

    received = await fleet.ask("POST", f"/receive?topic={topics[0]}")

    assert len(received.lines) == 1


@pytest.mark.parametrize("topic", TOPICS)
async def test_a_request_waits_for_messages_of_any_shard(fleet, topic):
    asking = asyncio.create_task(fleet.ask("POST", f"{OF_ALL}&wait=60&count=5"))
    await fleet.wait_until_read(*TOPICS)
    await fleet.publish(topic)

    assert [line["topic"] for line in (await asking).lines] == [topic]


async def test_messages_that_come_to_two_shards_at_once_are_leased_in_one(fleet):
    asking = asyncio.create_task(fleet.ask("POST", f"{OF_ALL}&wait=60"))
    await fleet.wait_until_read(*TOPICS)
    await asyncio.gather(*map(fleet.publish, TOPICS))
    [line] = (await asking).lines
    while sum(await counts(fleet, "leased")) > 1:  # noqa: ASYNC110 - until the tunnels of the others have ended
        await asyncio.sleep(0)

    assert await counts(fleet, "leased") == [int(topic == line["topic"]) for topic in TOPICS]
    assert sum(await counts(fleet, "ready")) == 2


async def test_the_waiting_time_ends_without_messages(fleet):
    received = await fleet.ask("POST", f"{OF_ALL}&wait=0.05")

    assert (received.status, received.lines) == (200, [])


async def test_acknowledged_messages_are_awaited_too(fleet):
    asking = asyncio.create_task(fleet.ask("POST", f"{OF_ALL}&wait=60&autoack=true"))
    await fleet.wait_until_read(TOPICS[2])
    await fleet.publish(TOPICS[2])

    assert [line["topic"] for line in (await asking).lines] == [TOPICS[2]]
    assert await counts(fleet, "acknowledged") == [0, 0, 1]


async def test_a_client_that_leaves_leases_nothing(fleet):
    client = Client(b"")
    app = fleet.members[0].door
    path, _, query = f"{OF_ALL}&wait=60".partition("?")
    asking = asyncio.create_task(app(scope_of("POST", path, query=query.encode()), client.receive, client.send))
    await fleet.wait_until_read(*TOPICS)
    client.leave()
    await asking
    await fleet.publish(*TOPICS)

    assert client.sent == []
    assert sum(await counts(fleet, "leased")) == 0


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "BADOPTION"),
        ("&count=0", "BADPREFETCH"),
        ("&wait=x", "BADDELAY"),
        ("&group=", "BADGROUP"),
        ("&nothing=1", "ERR"),
    ],
)
async def test_what_one_process_refuses_is_refused(fleet, query, code):
    path = f"{OF_ALL}{query}" if query else "/receive"

    assert (await fleet.ask("POST", path)).code == code


async def test_messages_are_not_lost_if_another_shard_does_not_answer(fleet):
    await fleet.publish(TOPICS[0])
    fleet.lose(1)

    answers = [await fleet.ask("POST", f"{OF_ALL}&count=2") for _ in range(COUNT)]

    assert [line["topic"] for answer in answers if answer.status == 200 for line in answer.lines] == [TOPICS[0]]
    assert {answer.code for answer in answers if answer.status != 200} == {"TRYAGAIN"}


async def test_nothing_is_leased_unless_the_user_may_consume_all_topics(tmp_path):
    bob = user("bob", subscriber=(TOPICS[0],))
    async with fleet_in(tmp_path, sign_in_for(bob)) as fleet:
        await fleet.publish(*TOPICS)
        headers = (b"authorization", b"Bearer " + token_of("bob"))

        assert (await fleet.ask("POST", OF_ALL, b"", headers)).code == "NOPERM"
        received = await fleet.ask("POST", "/receive?pattern=*&count=9", b"", headers)

        assert [line["topic"] for line in received.lines] == [TOPICS[0]]
