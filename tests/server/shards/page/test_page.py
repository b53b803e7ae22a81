"""The page shows all shards, and a session holds, whichever process answers."""

import asyncio

import orjson
import pytest

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.shards.http.door import PASSED_BYTES
from tests.server.access import sign_in_for, user
from tests.server.shards.http.fleet import COUNT, TOPICS, topic_in
from tests.server.shards.http.tunnels import Client, scope_of, until
from tests.server.shards.page.pages import ORIGIN, PORT, pages_in
from tests.server.shards.resp.clients import DoorClient


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


# --- spread topics --------------------------------------------------------------------------------------------

SPREAD = topic_in(1, "spread")
PARTS = 5


@pytest.fixture
async def spread(pages):
    """The pages of a broker with a plain topic, and with a spread one that has messages in each part."""
    client = DoorClient(pages.fleet.members[0].resp)
    words = b"spread", b"%d" % PARTS, b"max_deliveries", b"1"
    assert await client.ask(b"TOPIC", b"CREATE", SPREAD.encode(), *words) == b"+OK\r\n"
    for number in range(3 * PARTS):
        await client.ask(b"PUB", SPREAD.encode(), b"%d" % number)
    await pages.fleet.publish(TOPICS[0])
    pages.client = client
    yield pages
    client.transport.lose()


async def make_dead_letter(pages):
    receipt = (await pages.client.ask(b"RECEIVE", SPREAD.encode())).split(b"\r\n")[3]
    assert await pages.client.ask(b"NACK", SPREAD.encode(), receipt, b"SYNC") == b"+OK\r\n"


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_spread_topic_is_one_row_of_the_list(spread, door):
    shown = await spread.data("topics?sort=-ready", door=door)
    assert [(row["topic"], row["ready"]) for row in shown["topics"]] == [(SPREAD, 3 * PARTS), (TOPICS[0], 1)]
    assert (shown["total"], shown["matching"], shown["states"]["fine"]) == (2, 2, 2)
    found = await spread.data("topics?q=spread&sort=topic", door=door)
    assert [(found["total"], found["matching"]), *(row["topic"] for row in found["topics"])] == [(2, 1), SPREAD]
    assert (await spread.data("topics?state=idle", door=door))["matching"] == 0


async def test_a_spread_topic_counts_once_in_sums(spread):
    await make_dead_letter(spread)
    overview, totals = await spread.data("overview"), await spread.data("totals")
    assert (overview["totals"]["topics"], overview["totals"]["ready"]) == (3, 3 * PARTS)
    assert (totals["topics"], totals["dead"]) == (3, 1)
    assert {row["topic"]: row["ready"] for row in overview["topics"]}[SPREAD] == 3 * PARTS - 1
    dead = await spread.data("dead")
    letters = SPREAD + ".dlq"
    assert [(row["topic"], row["deadLetterTopic"], row["dead"]) for row in dead["topics"]] == [(SPREAD, letters, 1)]
    assert (await spread.data("dead?q=nothing"))["matching"] == 0


async def test_what_needs_attention_in_several_parts_is_said_once(spread):
    await spread.client.ask(b"PAUSE", SPREAD.encode(), b"OUT")
    overview = await spread.data("overview")
    [finding] = overview["attention"]
    assert (finding["topic"], finding["kind"], overview["attentionMore"]) == (SPREAD, "paused", 0)
    assert finding["text"].endswith(f" The same in {PARTS - 1} more parts.")


async def test_the_view_of_a_spread_topic_adds_up_its_parts(spread):
    shown = await spread.data(f"topic?topic={SPREAD}")
    assert (shown["topic"], shown["ready"], shown["totals"]["published"]) == (SPREAD, 3 * PARTS, 3 * PARTS)
    assert [partition["partition"] for partition in shown["partitions"]] == [str(n << 10) for n in range(PARTS)]
    [group] = shown["groups"]
    assert (group["lag"], len(group["lags"])) == (3 * PARTS, PARTS)
    assert (shown["settings"]["spread"], shown["changed"]) == (PARTS, ["max_deliveries", "spread"])
    assert (await spread.data(f"history?topic={SPREAD}"))["stepSeconds"]


async def test_dead_letters_of_a_spread_topic_are_one_topic(spread):
    await make_dead_letter(spread)
    letters = await spread.data(f"topic?topic={SPREAD}.dlq")
    assert (letters["ready"], letters["isDeadLetters"], letters["deadLettersOf"]) == (1, True, SPREAD)
    reasons = await spread.data(f"dead?topic={SPREAD}")
    assert [(reason["count"]) for reason in reasons["reasons"]] == [1]
    assert (reasons["topic"], reasons["deadLetterTopic"]) == (SPREAD, SPREAD + ".dlq")
    missing = await spread.ask("GET", f"/ui/data/topic?topic={SPREAD}.dlq.dlq")
    assert missing.status == 404


@pytest.mark.parametrize("query", ["", "&contains=1"])
async def test_pages_of_messages_go_from_part_to_part(spread, query):
    ids, after = [], ""
    while True:
        page = await spread.data(f"messages?topic={SPREAD}&count=4{query}&after={after}")
        ids += [message["id"] for message in page["messages"]]
        after = page["next"]
        if after is None:
            break
    assert len(ids) == len(set(ids)) == (6 if query else 3 * PARTS)


async def test_who_holds_messages_of_several_parts_is_shown_once(spread):
    await spread.client.ask(b"RECEIVE", SPREAD.encode(), b"COUNT", b"100", b"LEASE", b"60")
    [holder] = (await spread.data(f"connections?topic={SPREAD}"))["holders"]
    assert holder["leased"] == 3 * PARTS


async def test_no_view_can_name_a_part(spread):
    for view in ("topic", "messages", "dead", "history", "connections"):
        assert (await spread.ask("GET", f"/ui/data/{view}?topic={SPREAD}%1f0")).status == 400
