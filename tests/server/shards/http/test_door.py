"""Any door answers for the topics of all shards, as one process would for its own."""

import asyncio

import orjson
import pytest

from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, fleet_in, topic_in
from tests.server.shards.http.tunnels import Client

MEMBERS = user("ada", admin=("*",)), user("bob", subscriber=(TOPICS[1],)), user("eve", monitor=(TOPICS[2],))


def bearer(name: str) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + token_of(name))


# --- one topic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", range(COUNT))
async def test_topics_of_all_shards_are_used_through_each_door(fleet, door):
    for topic in TOPICS:
        published = await fleet.ask("POST", f"/publish/{topic}", b"hello", door=door)
        received = await fleet.ask("POST", f"/topics/{topic}/receive", door=door)
        [line] = received.lines
        receipts = orjson.dumps({"receipts": [line["receipt"]]})
        acked = await fleet.ask("POST", f"/topics/{topic}/ack", receipts, door=door)

        assert published.status == 201
        assert line["msg"] == "aGVsbG8="
        assert acked.status == 200
        assert (await fleet.broker_with(topic).inspect.stats(topic.encode()))["acknowledged"] == 1


async def test_percent_signs_in_names_are_those_of_the_owner(fleet):
    await fleet.ask("POST", "/publish/a%2Bb%3F", b"x")

    names = [topic["topic"] for topic in (await fleet.ask("GET", "/topics", door=1)).json["topics"]]
    assert names == ["a+b?"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing/here", 404),
        ("PUT", "/publish/t", 405),
        ("GET", "/", 404),
        ("DELETE", f"/{topic_in(2)}", 200),
        ("DELETE", "/topics", 200),
    ],
)
async def test_paths_mean_what_they_mean_in_one_process(fleet, method, path, status):
    assert (await fleet.ask(method, path)).status == status


async def test_messages_are_redriven_to_a_topic_of_another_shard(fleet):
    await fleet.ask("POST", f"/publish/{TOPICS[1]}", b"x")
    redriven = await fleet.ask("POST", f"/topics/{TOPICS[1]}/redrive?to={TOPICS[2]}")

    assert (redriven.status, redriven.json["moved"]) == (200, 1)
    assert fleet.broker_with(TOPICS[1]).outbox.waiting_for(TOPICS[2].encode()) == 1


async def test_a_page_of_another_site_is_refused_at_the_door(fleet):
    refused = await fleet.ask("POST", f"/publish/{TOPICS[1]}", b"x", (b"origin", b"https://evil.example"))

    assert refused.code == "BADORIGIN"


async def test_a_shard_that_does_not_answer_is_unavailable_and_the_others_go_on(fleet):
    fleet.lose(1)

    refused = await fleet.ask("POST", f"/publish/{TOPICS[1]}", b"x")
    done = await fleet.ask("POST", f"/publish/{TOPICS[2]}", b"x")

    assert (refused.status, refused.code, refused.headers[b"retry-after"]) == (503, "TRYAGAIN", b"1")
    assert done.status == 201


async def test_a_request_that_waits_ends_when_its_shard_does_not_answer_any_more(fleet):
    asking = asyncio.create_task(fleet.ask("POST", f"/topics/{TOPICS[1]}/receive?wait=60"))
    await fleet.wait_until_read(TOPICS[1])
    fleet.lose(1)

    assert (await asking).code == "TRYAGAIN"


# --- users ----------------------------------------------------------------------------------------------------


async def test_the_owner_checks_what_the_user_of_the_door_may_do(tmp_path):
    async with fleet_in(tmp_path, sign_in_for(*MEMBERS)) as fleet:
        path = f"/topics/{TOPICS[1]}/receive"

        assert (await fleet.ask("POST", path, b"", bearer("bob"))).status == 200
        assert (await fleet.ask("POST", path, b"", bearer("eve"))).code == "NOPERM"
        assert (await fleet.ask("POST", path)).code == "NOAUTH"
        assert (await fleet.ask("POST", path, b"", (b"authorization", b"Bearer wrong"))).code == "WRONGPASS"


async def test_a_user_who_was_removed_is_refused_at_once(tmp_path):
    async with fleet_in(tmp_path, sign_in_for(*MEMBERS)) as fleet:
        sign_in = fleet.members[0].sign_in
        path = f"/topics/{TOPICS[1]}/receive"
        await fleet.ask("POST", path, b"", bearer("bob"))
        sign_in.replace(type(sign_in._users)(MEMBERS[:1]))

        assert (await fleet.ask("POST", path, b"", bearer("bob"))).status == 401


async def test_a_stream_ends_when_its_user_is_removed(tmp_path):
    async with fleet_in(tmp_path, sign_in_for(*MEMBERS)) as fleet:
        sign_in, client = fleet.members[0].sign_in, Client(b"", is_complete=False)
        path = f"/subscribe/{TOPICS[1]}"
        asking = asyncio.create_task(fleet.ask("POST", path, b"", bearer("bob"), client=client))
        await client.wait_for(1)
        sign_in.replace(type(sign_in._users)(MEMBERS[:1]))
        fleet.members[1].http.cut_off()

        assert (await asking).status == 200


async def test_lists_show_what_the_user_may_see(tmp_path):
    async with fleet_in(tmp_path, sign_in_for(*MEMBERS)) as fleet:
        await fleet.publish(*TOPICS)

        seen = {
            name: [topic["topic"] for topic in (await fleet.ask("GET", "/topics", b"", bearer(name))).json["topics"]]
            for name in ("ada", "bob", "eve")
        }
        assert seen == {"ada": sorted(TOPICS), "bob": [], "eve": [TOPICS[2]]}
        assert (await fleet.ask("GET", "/topics")).code == "NOAUTH"
        assert (await fleet.ask("GET", "/schedules", b"", bearer("eve"))).code == "NOPERM"


async def test_nothing_is_charged_after_a_request(fleet):
    for path in ("/topics", "/usage", f"/topics/{TOPICS[1]}", f"/receive?topic={TOPICS[0]}&topic={TOPICS[1]}"):
        await fleet.ask("POST" if "receive" in path else "GET", path)

    assert [member.broker.memory.amounts() for member in fleet.members] == [{}, {}, {}]
