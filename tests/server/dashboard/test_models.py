"""What the page shows beyond the API: its rows and figures, paging, and which users see what."""

import pytest

from miniqueue.broker.inspect import known_ages
from miniqueue.broker.inspect.history import STEP_SECONDS
from miniqueue.core.settings.fields import Side
from tests.fakes import START_MS, FakeConsumer
from tests.server.access import sign_in_for, user
from tests.server.dashboard.support import dashboard


async def names(world, query, *headers):
    """Return the names of a page of topics."""
    return [row["topic"] for row in (await world.data("topics" + query, *headers))["topics"]]


async def test_a_row_has_figures_or_null():
    async with dashboard() as world:
        await world.publish(b"orders", b"x", b"y")
        consumer = FakeConsumer(world.broker, b"orders")
        consumer.consumer.request()
        page = await world.data("topics")
        assert page["nowMs"] == world.clock.now_ms()
        assert page["topics"] == [
            {
                "topic": "orders",
                "state": "fine",
                "sinceMs": None,
                "ready": 1,
                "leased": 1,
                "delayed": 0,
                "dead": 0,
                "publishedPerSecond": 0.0,
                "acknowledgedPerSecond": 0.0,
                "returnedPerSecond": 0.0,
                "oldestAtMs": START_MS,
                "consumers": 1,
                "groups": 1,
                "paused": None,
                "damaged": False,
                "isDeadLetters": False,
                "deadLetterTopic": "orders.dlq",
                "readyHistory": [],
            }
        ]
        consumer.consumer.close()


async def test_pages_are_filtered_and_sorted_by_the_broker():
    async with dashboard() as world:
        for name, count in ((b"orders.eu", 1), (b"orders.us", 3), (b"Mail", 2)):
            await world.publish(name, *[b"x"] * count)
        assert await names(world, "") == ["orders.us", "Mail", "orders.eu"]
        assert await names(world, "?sort=ready") == ["orders.eu", "Mail", "orders.us"]
        assert await names(world, "?sort=topic") == ["Mail", "orders.eu", "orders.us"]
        assert await names(world, "?sort=-topic&count=2&page=2") == ["Mail"]
        assert await names(world, "?q=ORDERS&sort=topic") == ["orders.eu", "orders.us"]
        assert await names(world, "?q=m*&sort=topic") == ["Mail"]
        assert await names(world, "?q=*.us") == ["orders.us"]
        assert await names(world, "?q=[") == []
        assert await names(world, "?page=7") == []
        page = await world.data("topics?q=orders&count=1")
        assert (page["total"], page["matching"], page["page"]) == (3, 2, 1)


async def test_sorting_by_age_puts_what_has_none_last():
    async with dashboard() as world:
        await world.publish(b"a", b"x")
        world.clock.advance(5)
        await world.publish(b"b", b"x")
        await world.broker.admin.create(b"empty", {}).wait()
        assert await names(world, "?sort=-oldest") == ["a", "b", "empty"]
        assert await names(world, "?sort=oldest") == ["b", "a", "empty"]


async def test_states_are_counted_and_can_be_chosen():
    async with dashboard() as world:
        for name in (b"a", b"b", b"paused"):
            await world.publish(name, b"x")
        await world.broker.admin.create(b"empty", {}).wait()
        await world.broker.admin.pause(b"paused", Side.OUT).wait()
        page = await world.data("topics?state=paused")
        assert [(row["topic"], row["state"], row["paused"]) for row in page["topics"]] == [("paused", "paused", "out")]
        assert {state: count for state, count in page["states"].items() if count} == {"fine": 2, "idle": 1, "paused": 1}
        assert (page["total"], page["matching"]) == (4, 1)
        assert page["topics"][0]["sinceMs"] == world.clock.now_ms()
        assert await names(world, "?sort=state") == ["paused", "a", "b", "empty"]


@pytest.mark.parametrize(
    "query",
    [
        "sort=what",
        "state=what",
        "page=0",
        "page=x",
        "count=101",
        "count=-1",
        "q=" + "*a" * 128,
        "page=99999999999",
        "what=1",
        "sort=--ready",
    ],
)
async def test_an_invalid_query_is_an_error(query):
    async with dashboard() as world:
        assert (await world.get("/ui/data/topics?" + query)).code == (400, "ERR")


async def test_names_are_text_whatever_they_contain():
    async with dashboard() as world:
        name = "<script>alert(1)</script>'\"&#x202e;\u202e%2e".replace("/", "|")
        await world.publish(name.encode(), b"<script>")
        reply = await world.get("/ui/data/topics")
        assert reply.json["topics"][0]["topic"] == name
        assert reply.headers[b"content-type"] == b"application/json"
        assert reply.headers[b"x-content-type-options"] == b"nosniff"


USERS = [user("ada", monitor=("orders.*",)), user("pub", publisher=("*",)), user("all", monitor=("*",))]


async def test_a_user_sees_the_topics_that_the_user_may_monitor_and_their_sums():
    async with dashboard(sign_in_for(*USERS)) as world:
        await world.publish(b"orders.eu", b"x", b"y")
        await world.publish(b"secret", *[b"x"] * 5)
        await world.broker.admin.pause(b"secret", Side.IN).wait()
        ada, pub, everything = [await world.sign_in_as(each.name) for each in USERS]
        assert await names(world, "", ada) == ["orders.eu"]
        assert await names(world, "", pub) == []
        assert await names(world, "", everything) == ["secret", "orders.eu"]
        overview = await world.data("overview", ada)
        assert (overview["totals"]["topics"], overview["totals"]["ready"], overview["attention"]) == (1, 2, [])
        assert (overview["broker"], overview["totals"]["connections"]) == (None, None)
        overview = await world.data("overview", everything)
        assert (overview["totals"]["topics"], overview["totals"]["ready"]) == (2, 7)
        assert [each["topic"] for each in overview["attention"]] == ["secret"]
        assert overview["broker"]["memory"]["purposes"]


@pytest.mark.parametrize("view", ["topic?topic=secret", "history?topic=secret", "history"])
async def test_other_views_require_the_right_on_their_topic(view):
    async with dashboard(sign_in_for(*USERS)) as world:
        await world.publish(b"secret", b"x")
        ada, everything = await world.sign_in_as("ada"), await world.sign_in_as("all")
        assert (await world.get("/ui/data/" + view, ada)).code == (403, "NOPERM")
        assert (await world.get("/ui/data/" + view, everything)).status == 200
        assert (await world.get("/ui/data/" + view)).code == (401, "NOAUTH")


async def test_the_overview_names_the_oldest_message_of_all_topics():
    async with dashboard() as world:
        assert (await world.data("overview"))["oldest"] is None
        for name in (b"first", b"second", b"third"):
            await world.publish(name, b"x")
            world.clock.advance(60)
        assert (await world.data("overview"))["oldest"] == {"topic": "first", "atMs": START_MS + 1000}

        # What the survey knows of "first" is too old now; younger messages of it do not count.
        consumer = FakeConsumer(world.broker, b"first")
        consumer.consumer.request()
        consumer.consumer.ack()
        consumer.consumer.close()
        await world.publish(b"first", b"y")
        assert (await world.data("overview"))["oldest"]["topic"] == "second"


async def test_dead_letters_are_not_the_oldest_message():
    async with dashboard() as world:
        await world.publish(b"orders.dlq", b"dead")
        world.clock.advance(60)
        await world.publish(b"orders", b"x")
        assert (await world.data("overview"))["oldest"]["topic"] == "orders"


async def test_the_oldest_message_is_found_among_more_topics_than_are_read_at_once(monkeypatch):
    monkeypatch.setattr(known_ages, "MAX_UNKNOWN", 2)
    async with dashboard() as world:
        for number in range(9):
            await world.publish(b"t%d" % (9 - number), b"x")
            world.clock.advance(60)
        for _ in range(5):
            overview = await world.data("overview")
        assert overview["oldest"] == {"topic": "t9", "atMs": START_MS}


async def test_a_user_sees_the_oldest_message_of_own_topics():
    ada = user("ada", monitor=("own.*",))
    async with dashboard(sign_in_for(ada, user("all", monitor=("*",)))) as world:
        await world.publish(b"secret", b"x")
        world.clock.advance(60)
        await world.publish(b"own.orders", b"x")
        oldest = [(await world.data("overview", await world.sign_in_as(name)))["oldest"] for name in ("ada", "all")]
        assert [each["topic"] for each in oldest] == ["own.orders", "secret"]


async def test_the_overview_lists_what_needs_attention_and_where_to_look():
    async with dashboard() as world:
        for number in range(12):
            await world.publish(b"t%02d" % number, *[b"x"] * (number + 1))
        for number in range(7):
            await world.broker.admin.pause(b"t%02d" % number, Side.OUT).wait()
        overview = await world.data("overview")
        assert (len(overview["attention"]), overview["attentionMore"]) == (5, 2)
        assert overview["attention"][0] == {
            "level": "note",
            "kind": "paused",
            "topic": "t00",
            "group": None,
            "text": "Nothing is delivered: the topic is paused.",
            "side": "out",
            "sinceMs": world.clock.now_ms(),
        }
        assert [row["topic"] for row in overview["topics"]] == [f"t{n:02}" for n in (*range(7), 11, 10, 9)]


async def test_a_topic_with_its_groups_partitions_and_settings():
    async with dashboard() as world:
        await world.broker.admin.create(b"orders", {"partitions": 2, "max_deliveries": 3}).wait()
        await world.publish(b"orders", b"x")
        await world.broker.groups.create(b"orders", b"mail")
        topic = await world.data("topic?topic=orders")
        assert (topic["topic"], topic["ready"], topic["state"], topic["deadLetterTopic"]) == (
            "orders",
            1,
            "fine",
            "orders.dlq",
        )
        assert topic["changed"] == ["max_deliveries", "partitions"]
        assert topic["settings"]["max_deliveries"] == 3
        assert topic["rights"] == ["publish", "consume", "monitor", "admin"]
        assert {group["group"]: group["lag"] for group in topic["groups"]} == {"default": 1, "mail": 1}
        assert [(each["partition"], each["lag"]) for each in topic["partitions"]] == [("0", 1), ("1", 0)]
        assert topic["totals"]["published"] == 1
        assert topic["groups"][0]["oldestAtMs"] == START_MS
        assert (topic["slowestGroup"], topic["deadLettersOf"]) == ("default", None)
        assert (await world.get("/ui/data/topic?topic=nothing")).code == (404, "NOTOPIC")
        assert (await world.get("/ui/data/topic?topic=")).code == (400, "ERR")


async def test_the_slowest_group_is_named_if_there_is_another():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        assert (await world.data("topic?topic=orders"))["slowestGroup"] is None
        await world.broker.groups.create(b"orders", b"mail")
        await world.publish(b"orders", b"y")
        assert (await world.data("topic?topic=orders"))["slowestGroup"] == "default"


async def test_a_topic_and_that_of_its_dead_letters_name_each_other():
    async with dashboard(sign_in_for(user("ada", monitor=("orders.dlq",)), user("all", monitor=("*",)))) as world:
        for name in (b"orders", b"orders.dlq", b"other.dlq"):
            await world.publish(name, b"x")
        ada, everything = await world.sign_in_as("ada"), await world.sign_in_as("all")
        assert (await world.data("topic?topic=orders.dlq", everything))["deadLettersOf"] == "orders"
        assert (await world.data("topic?topic=other.dlq", everything))["deadLettersOf"] is None
        assert (await world.data("topic?topic=orders.dlq", ada))["deadLettersOf"] is None
        await world.broker.admin.change(b"orders", {"dead_letter_topic": "other.dlq"}).wait()
        assert (await world.data("topic?topic=orders.dlq", everything))["deadLettersOf"] is None


async def test_a_topic_that_was_just_made_is_shown():
    async with dashboard() as world:
        await world.data("topics")
        await world.publish(b"new", b"x")
        reply = await world.get("/ui/data/topic?topic=new")  # the last survey does not have it
        assert (reply.json["topic"], reply.json["ready"], reply.json["dead"]) == ("new", 1, None)


async def test_the_next_due_time_of_delayed_messages():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        consumer = FakeConsumer(world.broker, b"orders")
        consumer.consumer.request()
        consumer.consumer.dack(60)
        consumer.consumer.close()
        assert (await world.data("topic?topic=orders"))["nextDueAtMs"] == START_MS + 60_000


async def pass_steps(world, count):
    for _ in range(count):
        world.clock.advance(STEP_SECONDS)
        await world.broker.overview.note()


async def test_lines_begin_with_the_process_and_have_gaps():
    async with dashboard() as world:
        empty = await world.data("history")
        assert (empty["firstMs"], empty["series"]["ready"]) == (None, [])
        await world.publish(b"orders", b"x", b"y")
        await pass_steps(world, 2)
        world.clock.advance(STEP_SECONDS)
        await pass_steps(world, 1)
        for query in ("history", "history?topic=orders", "history?range=1h"):
            line = await world.data(query)
            assert line["stepSeconds"] == 20
            assert line["series"]["ready"] == [2, 2, None, 2]
            assert line["series"]["dead"] == [0, 0, None, 0]
            assert line["firstMs"] == START_MS + 21_000
        assert (await world.data("history?range=24h"))["stepSeconds"] == 300


async def test_a_line_of_dead_letters_is_that_of_their_topic():
    async with dashboard() as world:
        await world.broker.admin.create(b"orders", {"max_deliveries": 1}).wait()
        await world.publish(b"orders", b"x")
        await pass_steps(world, 1)
        consumer = FakeConsumer(world.broker, b"orders")
        consumer.consumer.request()
        consumer.consumer.nack()
        consumer.consumer.close()
        await world.broker._engine.journal.committer.flush()
        await pass_steps(world, 1)
        assert (await world.data("history?topic=orders"))["series"]["dead"] == [0, 1]
        assert (await world.data("history"))["series"]["dead"] == [0, 1]


async def test_figures_change_nothing():
    async with dashboard(rest_seconds=60.0) as world:
        await world.publish(b"orders", b"x")
        for view in ("overview", "topics?sort=oldest", "topic?topic=orders", "history?topic=orders"):
            await world.data(view)
        assert world.broker.inspect.depth(b"orders") == 1
        assert world.broker.topics() == [b"orders"]
