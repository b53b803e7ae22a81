"""Routes that a spread topic carries out as a whole, at the doors of three shards."""

import asyncio
from base64 import b64decode

import orjson
import pytest

from miniqueue.access.rights import ROUTES
from miniqueue.core.message.parts import part_name
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, Fleet, fleet_in, topic_in
from tests.server.shards.http.test_spread import PARTS, TOPIC, receive, spread
from tests.server.shards.http.tunnels import Client, scope_of

PATH = f"/topics/{TOPIC}"
LETTERS = f"/topics/{TOPIC}.dlq"


@pytest.fixture
async def fleet(fleet: Fleet) -> Fleet:
    await spread(fleet, max_messages=1000)
    return fleet


async def fill(fleet: Fleet, count: int = 2 * PARTS, more: str = "") -> list[str]:
    """Publish messages, in each part in turn; return their ids."""
    published = [await fleet.ask("POST", f"/publish/{TOPIC}?{more}", b"%d" % number) for number in range(count)]
    return [each.headers[b"message-id"].decode() for each in published] if more else []


async def reject_all(fleet: Fleet) -> None:
    """Make dead letters of all messages."""
    receipts = [line["receipt"] for line in await receive(fleet)]
    await fleet.ask("POST", f"{PATH}/reject", orjson.dumps({"receipts": receipts, "reason": "no"}))


def asked(route: str) -> str:
    """Return a path of a route."""
    return route.replace("{topic}", TOPIC).replace("{id}", "0-0" if "messages" in route else "0")


async def test_every_route_with_a_topic_answers_and_shows_no_part(fleet):
    routes = [(method, path) for method, path in ROUTES if "{topic}" in path]
    await fill(fleet)
    for method, route in sorted(routes, key=lambda route: route[0] == "DELETE"):
        client = Client(b"{}")
        client.leave()
        app = fleet.members[2].door
        await app(scope_of(method, asked(route)), client.receive, client.send)
        if client.sent:
            assert client.status != 500, route
            assert not any(part in client.body for part in (b"CROSSSHARD", b"u001f", b"\x1f")), route


# --- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_spread_topic_is_created_changed_and_deleted(fleet, door):
    name = topic_in(2, "made")
    path = f"/topics/{name}"
    created = await fleet.ask("PUT", path, b'{"spread":4,"max_messages":100}', door=door)
    again = await fleet.ask("PUT", path, b'{"max_messages":200}', door=door)
    changed = await fleet.ask("PATCH", path, b'{"max_rate":8}', door=door)
    assert (created.status, again.status, changed.status) == (201, 200, 200)
    part = part_name(name.encode(), 3)
    settings = fleet.broker_with(part.decode()).admin.settings_of(part)
    assert (settings.max_messages, settings.max_rate) == (50, 2)
    assert (await fleet.ask("POST", f"{path}/pause?side=in")).status == 200
    assert (await fleet.ask("POST", f"/publish/{name}", b"x")).code == "PAUSED"
    assert (await fleet.ask("POST", f"{path}/resume")).status == 200
    assert (await fleet.ask("POST", f"/publish/{name}", b"x")).status == 201
    shown = (await fleet.ask("GET", path, door=door)).json
    assert (shown["topic"], shown["ready"], shown["settings"]["spread"]) == (name, 1, 4)
    assert (await fleet.ask("PATCH", path, b'{"spread":2}')).code == "BADSETTING"
    assert (await fleet.ask("DELETE", path, door=door)).status == 200
    assert (await fleet.ask("GET", path)).code == "NOTOPIC"
    assert not any(part in member.broker.topics() for member in fleet.members)


async def test_an_ordinary_topic_is_created_through_any_door(fleet):
    for door, topic in enumerate([TOPICS[0], TOPICS[2], topic_in(1, "other")]):
        assert (await fleet.ask("PUT", f"/topics/{topic}", b'{"lease_seconds":5}', door=door)).status == 201
        assert (await fleet.ask("GET", f"/topics/{topic}")).json["settings"]["lease_seconds"] == 5
    refused = await fleet.ask("PUT", f"/topics/{TOPICS[0]}", b'{"spread":3}')
    assert (refused.status, refused.code) == (400, "BADSETTING")


async def test_dead_letters_get_settings_of_their_own(fleet):
    assert (await fleet.ask("PATCH", LETTERS, b'{"max_messages":100}')).code == "NOTOPIC"
    await fill(fleet)
    await reject_all(fleet)
    assert (await fleet.ask("PATCH", LETTERS, b'{"max_messages":100}')).status == 200
    settings = (await fleet.ask("GET", LETTERS, door=1)).json["settings"]
    assert (settings["max_messages"], settings["spread"]) == (100, PARTS)


# --- inspecting -----------------------------------------------------------------------------------------------


async def test_statistics_and_partitions_are_those_of_all_parts(fleet):
    await fill(fleet)
    await receive(fleet, "count=3")
    shown = (await fleet.ask("GET", PATH, door=2)).json
    assert (shown["topic"], shown["ready"], shown["leased"], shown["published"]) == (TOPIC, 2 * PARTS - 3, 3, 2 * PARTS)
    assert shown["settings"]["max_messages"] == 1000
    partitions = (await fleet.ask("GET", f"{PATH}/partitions")).json["partitions"]
    assert [int(each["partition"]) >> 10 for each in partitions] == list(range(PARTS))
    assert sum(each["end"] for each in partitions) == 2 * PARTS


async def test_pages_of_messages_continue_in_the_next_part(fleet):
    ids = await fill(fleet, 3 * PARTS, "ttl=600")
    seen, after = [], ""
    while page := (await fleet.ask("GET", f"{PATH}/messages?count=4{after}")).json["messages"]:
        assert len(page) == 4 or len(seen) + len(page) == len(ids)
        seen += [message["id"] for message in page]
        after = f"&after={seen[-1]}"
    assert sorted(seen) == sorted(ids)
    found, after = [], ""
    while after is not None:
        more = f"&after={after}" if after else ""
        page = (await fleet.ask("GET", f"{PATH}/search?count=4&scan=5{more}")).json
        found += [message["id"] for message in page["messages"]]
        assert page["scanned"] <= 5
        after = page["next"]
    assert found == seen
    assert len((await fleet.ask("GET", f"{PATH}/search?contains=1")).json["messages"]) == 6
    assert (await fleet.ask("GET", f"{PATH}/messages?state=none")).code == "BADOPTION"


async def test_pages_of_leases_continue_in_the_next_part(fleet):
    await fill(fleet)
    receipts = {line["receipt"] for line in await receive(fleet)}
    listed, after = [], ""
    while page := (await fleet.ask("GET", f"/leases?topic={TOPIC}&count=3{after}")).json["leases"]:
        listed += page
        after = f"&after={listed[-1]['receipt']}"
    assert {each["receipt"] for each in listed} == receipts
    assert {each["topic"] for each in listed} == {TOPIC}
    assert (await fleet.ask("GET", f"/leases?topic={TOPIC}%1F1")).code == "BADTOPIC"


async def test_the_parts_of_dead_letters_that_do_not_exist_are_left_out(fleet):
    for path in ("", "/messages", "/search", "/partitions", "/groups"):
        assert (await fleet.ask("GET", LETTERS + path)).code == "NOTOPIC"
    await fleet.ask("POST", f"/publish/{TOPIC}?key=k", b"x")
    await reject_all(fleet)
    assert (await fleet.ask("GET", LETTERS)).json["ready"] == 1
    [letter] = (await fleet.ask("GET", f"{LETTERS}/messages")).json["messages"]
    [dead] = (await fleet.ask("GET", f"{PATH}/messages?state=dead")).json["messages"]
    assert dead["id"] == letter["id"]


# --- groups ---------------------------------------------------------------------------------------------------


async def test_groups_are_those_of_all_parts(fleet):
    await fill(fleet)
    group = f"{PATH}/groups/audit"
    assert (await fleet.ask("PUT", f"{group}?from=earliest")).status == 201
    assert (await fleet.ask("PUT", f"{group}?from=earliest", door=1)).status == 409
    assert len(await receive(fleet, "count=3&group=audit")) == 3
    shown = (await fleet.ask("GET", group, door=2)).json
    assert (shown["name"], shown["lag"], shown["leased"], len(shown["lags"])) == ("audit", 2 * PARTS, 3, PARTS)
    listed = (await fleet.ask("GET", f"{PATH}/groups")).json["groups"]
    assert [each["name"] for each in listed] == ["audit", "default"]
    for door in range(COUNT):
        [holder] = (await fleet.ask("GET", f"{group}/holders", door=door)).json["holders"]
        assert holder["leased"] == 3
    for act in ("pause", "resume"):
        assert (await fleet.ask("POST", f"{group}/{act}")).status == 200
        assert (await fleet.ask("GET", group)).json["paused"] is (act == "pause")
    assert (await fleet.ask("DELETE", group)).status == 200
    assert (await fleet.ask("DELETE", group)).code == "NOGROUP"


async def test_a_group_that_only_some_parts_have_is_created_in_the_others(fleet):
    part = part_name(TOPIC.encode(), 2)
    await fleet.broker_with(part.decode()).groups.create(part, b"audit")
    assert (await fleet.ask("PUT", f"{PATH}/groups/audit")).status == 201
    assert len((await fleet.ask("GET", f"{PATH}/groups/audit")).json["position"]) == PARTS


async def test_a_group_is_moved_in_all_parts(fleet):
    ids = await fill(fleet, 2 * PARTS, "ttl=600")
    await fleet.ask("PATCH", PATH, b'{"retention_seconds":600}')
    await fleet.ask("PUT", f"{PATH}/groups/audit")
    seek = f"{PATH}/groups/audit/seek"
    dry = await fleet.ask("POST", f"{seek}?to=latest&dry_run=true")
    assert dry.json == {"before": 2 * PARTS, "after": 0}
    assert (await fleet.ask("POST", f"{seek}?to=latest")).json == {"before": 2 * PARTS, "after": 0}
    assert (await fleet.ask("POST", f"{seek}?to={','.join(ids[:PARTS])}")).json["after"] == 2 * PARTS
    second = next(each for each in ids if each.endswith("-1"))
    assert (await fleet.ask("POST", f"{seek}?to={second}")).json["after"] == 2 * PARTS - 1  # the same moment
    assert (await fleet.ask("POST", f"{seek}?to=nowhere")).code == "BADOPTION"
    assert (await fleet.ask("POST", f"{PATH}/groups/none/seek?to=latest")).code == "NOGROUP"


# --- acts -----------------------------------------------------------------------------------------------------


async def test_acts_on_many_messages_are_carried_out_by_all_parts(fleet):
    await fill(fleet, 4 * PARTS)
    assert (await fleet.ask("POST", f"{PATH}/messages/delete?dry_run=true")).json == {"count": 4 * PARTS}
    assert (await fleet.ask("POST", f"{PATH}/messages/delete?limit=7")).json == {"count": 7}
    assert (await fleet.ask("POST", f"{PATH}/purge?state=ready", door=1)).json == {"removed": 4 * PARTS - 7}
    assert (await fleet.ask("POST", f"{PATH}/messages/dance")).code == "ERR"


async def test_dead_letters_of_all_parts_are_redriven(fleet):
    await fill(fleet)
    await reject_all(fleet)
    first = await fleet.ask("POST", f"{LETTERS}/redrive?limit=3", door=1)
    assert first.json == {"moved": 3, "remaining": 2 * PARTS - 3}
    assert (await fleet.ask("POST", f"{LETTERS}/redrive")).json == {"moved": 2 * PARTS - 3, "remaining": 0}
    assert (await fleet.ask("POST", f"{LETTERS}/redrive?limit=none")).code == "ERR"
    assert len(await receive(fleet)) == 2 * PARTS


async def test_tasks_of_all_parts_are_shown_as_one(fleet):
    await fill(fleet)
    begun = (await fleet.ask("POST", f"{PATH}/messages/delete?task=true&rate=1000")).json["task"]
    assert len(begun.split("-")) == PARTS
    task = (await fleet.ask("GET", f"/tasks/{begun}", door=2)).json
    while task["status"] == "running":
        await asyncio.sleep(0)
        fleet.clock.advance(1)
        task = (await fleet.ask("GET", f"/tasks/{begun}")).json
    assert (task["id"], task["topic"], task["status"], task["count"]) == (begun, TOPIC, "done", 2 * PARTS)
    assert (await fleet.ask("DELETE", f"/tasks/{begun}")).status == 200
    assert (await fleet.ask("GET", "/tasks/1-2-3")).code == "NOTASK"


# --- users ----------------------------------------------------------------------------------------------------


async def test_rights_are_those_on_the_topic(tmp_path):
    ada, bob = user("ada", admin=("*",)), user("bob", subscriber=(TOPIC,))
    async with fleet_in(tmp_path, sign_in_for(ada, bob)) as fleet:
        as_ada, as_bob = ((b"authorization", b"Bearer " + token_of(name)) for name in ("ada", "bob"))
        assert (await fleet.ask("PUT", PATH, b'{"spread":5}', as_ada)).status == 201
        assert (await fleet.ask("POST", f"/publish/{TOPIC}", b"x", as_bob)).code == "NOPERM"
        assert (await fleet.ask("POST", f"/publish/{TOPIC}", b"x", as_ada)).status == 201
        [line] = (await fleet.ask("POST", f"{PATH}/receive", b"", as_bob)).lines
        assert b64decode(line["msg"]) == b"x"
        assert (await fleet.ask("POST", f"{PATH}/receive", b"")).code == "NOAUTH"
        assert (await fleet.ask("POST", f"{PATH}/receive?group=g&member=m", b"", as_bob)).status == 200
        assert len((await fleet.ask("GET", f"{PATH}/groups/g", b"", as_ada)).json["members"]["m"]) == PARTS
        assert (await fleet.ask("GET", PATH, b"", as_bob)).code == "NOPERM"
        assert (await fleet.ask("GET", f"/leases?topic={TOPIC}", b"", as_bob)).status == 200
        assert (await fleet.ask("DELETE", PATH, b"", as_bob)).code == "NOPERM"


async def test_a_shard_that_does_not_answer_makes_a_whole_reply_impossible(fleet):
    await fill(fleet)
    fleet.lose(2)
    for method, path in (("GET", PATH), ("GET", f"{PATH}/groups"), ("PATCH", PATH), ("POST", f"{PATH}/purge")):
        refused = await fleet.ask(method, path, b"{}" if method == "PATCH" else b"")
        assert (refused.status, refused.code) == (503, "TRYAGAIN")
