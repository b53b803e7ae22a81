"""The page shows all shards, and a session holds, whichever process answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.page import Page
from miniqueue.server.shards.http.door import PASSED_BYTES
from miniqueue.server.shards.http.scopes import MONITOR, PAGE, QUEUE
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, Fleet, fleet_in, topic_in
from tests.server.shards.http.tunnels import Client, scope_of, until

PORT = 8081
HOST = (b"host", b"localhost:8081")
ORIGIN = (b"origin", b"http://localhost:8081")


class Pages:
    """The page of each process, as browsers reach it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.pages = [
            Page(member.monitoring, member.door, member.broker, member.sign_in, facts, member.shard)
            for member in fleet.members
        ]
        self.doors = []
        for member, page in zip(fleet.members, self.pages, strict=True):
            member.serve_also({QUEUE: member.http, MONITOR: page.app, PAGE: page.parts})
            self.doors.append(member.shard.page_door(member.broker, page.app, PORT))

    async def ask(self, method, target, *headers, body=b"", door=0, client=None):
        """Return the reply to a request of a browser at a process."""
        path, _, query = target.partition("?")
        client = client or Client(body)
        scope = scope_of(method, path, HOST, *headers, query=query.encode()) | {"scheme": "http"}
        scope["headers"] = [HOST, *headers]
        await self.doors[door](scope, client.receive, client.send)
        return client

    async def data(self, view, *headers, door=0):
        self.fleet.clock.advance(1)
        client = await self.ask("GET", f"/ui/data/{view}", *headers, door=door)
        assert client.status == 200, client.body
        return orjson.loads(client.body)

    async def sign_in(self, name, *headers, door=0):
        """Sign in; return the header with the cookie."""
        body = orjson.dumps({"user": name, "password": token_of(name).decode()})
        client = await self.ask("POST", "/ui/session", ORIGIN, *headers, body=body, door=door)
        assert client.status == 200, client.body
        given = dict(client.sent[0]["headers"])[b"set-cookie"]
        return b"cookie", given.partition(b";")[0]

    def drain(self):
        for page in self.pages:
            page.drain()


def facts():
    return Facts(name="here", monitor_port=PORT, resp_port=6379, started_at_ms=5)


@asynccontextmanager
async def pages_in(directory: Path, sign_in=None) -> AsyncIterator[Pages]:
    async with fleet_in(directory, sign_in) as fleet:
        pages = Pages(fleet)
        try:
            yield pages
        finally:
            pages.drain()


@pytest.fixture
async def pages(tmp_path):
    async with pages_in(tmp_path) as pages:
        yield pages


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_list_has_the_topics_of_all_shards_in_one_order(pages, door):
    await pages.fleet.publish(*TOPICS, TOPICS[1])

    shown = await pages.data("topics?sort=-ready", door=door)

    assert (shown["total"], shown["matching"], shown["states"]["fine"]) == (3, 3, 3)
    assert [(row["topic"], row["ready"]) for row in shown["topics"]] == [
        (TOPICS[1], 2),
        *((name, 1) for name in sorted([TOPICS[0], TOPICS[2]])),
    ]
    second = await pages.data("topics?sort=topic&count=1&page=2", door=door)
    assert [row["topic"] for row in second["topics"]] == [sorted(TOPICS)[1]]


@pytest.mark.parametrize("view", ["topic?topic={}", "messages?topic={}", "history?topic={}", "dead?topic={}"])
async def test_what_concerns_a_topic_is_asked_of_its_shard(pages, view):
    await pages.fleet.publish(*TOPICS)

    for topic in TOPICS:
        shown = await pages.data(view.format(topic))
        assert shown.get("topic", topic) == topic
        assert len(shown.get("messages", [1])) == 1


@pytest.mark.parametrize("view", ["overview", "totals", "broker", "history", "dead", "connections", "settings"])
async def test_each_view_can_be_opened_at_each_process(pages, view):
    await pages.fleet.publish(*TOPICS)
    shown = [await pages.data(view, door=door) for door in range(COUNT)]
    assert shown[0].keys() == shown[1].keys() == shown[2].keys()


async def test_an_error_of_another_shard_is_that_of_this_process(pages):
    own, other = [await pages.ask("GET", f"/ui/data/topic?topic={topic_in(shard, 'none')}") for shard in (0, 1)]
    assert (own.status, orjson.loads(own.body)["code"]) == (other.status, orjson.loads(other.body)["code"])
    assert own.status == 404
    wrong = await pages.ask("GET", "/ui/data/topics?what=1")
    assert wrong.status == 400


async def test_a_shard_that_does_not_answer_is_said_and_the_rest_is_shown(pages):
    await pages.fleet.publish(*TOPICS)
    pages.fleet.lose(2)

    assert (await pages.data("overview"))["attention"][0]["kind"] == "away"
    assert (await pages.data("topics"))["total"] == 2
    assert [row["status"] for row in (await pages.data("broker"))["shards"]] == ["ok", "ok", "away"]
    refused = await pages.ask("GET", f"/ui/data/topic?topic={TOPICS[2]}")
    assert (refused.status, orjson.loads(refused.body)["code"]) == (503, "TRYAGAIN")


async def test_acts_reach_the_shard_of_their_topic(pages):
    created = await pages.ask("PUT", f"/ui/api/topics/{TOPICS[2]}", ORIGIN, body=b"{}")
    assert created.status in (200, 201)
    assert (await pages.data("topics"))["total"] == 1
    assert TOPICS[2].encode() in pages.fleet.members[2].broker._engine.topics.by_name


async def test_a_live_view_follows_the_topics_of_other_shards(pages):
    client = Client()
    tab = asyncio.create_task(pages.ask("GET", "/ui/live?view=topics", client=client))
    await until(lambda: b"event: view" in client.body)
    await pages.fleet.publish(TOPICS[2])
    pages.fleet.clock.advance(1)
    await pages.pages[0]._made.live.refresh()
    await until(lambda: TOPICS[2].encode() in client.body)
    client.leave()
    await tab


# --- users ----------------------------------------------------------------------------------------------------

ADMIN = user("ann", admin=("*",))
LIMITED = user("max", monitor=(TOPICS[1],))


@pytest.fixture
async def guarded(tmp_path):
    async with pages_in(tmp_path, sign_in_for(ADMIN, LIMITED)) as pages:
        yield pages


async def test_a_session_holds_at_every_process_and_ends_at_every_one(guarded):
    cookie = await guarded.sign_in("ann", door=1)
    for door in range(COUNT):
        shown = await guarded.ask("GET", "/ui/session", cookie, door=door)
        assert orjson.loads(shown.body)["user"] == "ann"
        assert (await guarded.data("overview", cookie, door=door))["broker"] is not None

    ended = await guarded.ask("DELETE", "/ui/session", ORIGIN, cookie, door=2)
    assert ended.status == 200
    for door in range(COUNT):
        assert (await guarded.ask("GET", "/ui/data/overview", cookie, door=door)).status == 401


async def test_what_is_passed_on_is_charged_to_the_client_meanwhile(guarded):
    cookie = await guarded.sign_in("ann", door=1)
    memory = guarded.fleet.members[0].broker.memory
    client = Client()
    tab = asyncio.create_task(guarded.ask("GET", "/ui/live?view=topics", cookie, client=client))
    await until(lambda: b"event: view" in client.body)
    assert memory.amounts()[Purpose.REQUESTS] >= PASSED_BYTES
    client.leave()
    await tab
    assert memory.amounts().get(Purpose.REQUESTS, 0) == 0


async def test_a_user_sees_the_same_topics_at_every_process(guarded):
    await guarded.fleet.publish(*TOPICS)
    cookie = await guarded.sign_in("max", door=2)
    for door in range(COUNT):
        shown = await guarded.data("topics", cookie, door=door)
        assert [row["topic"] for row in shown["topics"]] == [TOPICS[1]]
        assert (await guarded.ask("GET", "/ui/data/broker", cookie, door=door)).status == 403


async def test_a_session_whose_process_is_away_can_be_replaced(guarded):
    cookie = await guarded.sign_in("ann", door=1)
    guarded.fleet.lose(1)
    assert (await guarded.ask("GET", "/ui/data/totals", cookie, door=0)).status == 503
    assert (await guarded.ask("GET", "/ui/session", cookie, door=0)).status == 401
    again = await guarded.sign_in("ann", cookie, door=0)
    assert (await guarded.data("totals", again, door=2))["topics"] == 0


@pytest.mark.parametrize("cookie", [b"9-abc", b"-abc", b"1-", b"1-abc", b"00000000001-abc", b"x"])
async def test_a_cookie_that_is_no_session_is_refused(guarded, cookie):
    given = b"cookie", b"miniqueue-%d=%b" % (PORT, cookie)
    assert (await guarded.ask("GET", "/ui/data/overview", given)).status == 401


async def test_the_page_of_another_site_is_refused_before_and_behind_a_tunnel(guarded):
    cookie = await guarded.sign_in("ann", door=1)
    for door in range(COUNT):
        foreign = await guarded.ask("DELETE", "/ui/session", (b"origin", b"https://evil.example"), cookie, door=door)
        assert foreign.status == 403


async def test_parts_are_for_nobody_whom_no_door_has_authenticated(guarded):
    client = Client(orjson.dumps({"view": "overview"}))
    await guarded.pages[0].parts(scope_of("GET", "/"), client.receive, client.send)
    assert client.status == 401
