"""Messages, dead letters, clients, settings, and the broker, as the page shows them; and which users see them."""

import asyncio
from datetime import UTC, datetime

import pytest

from miniqueue.broker.inspect.history import STEP_SECONDS
from miniqueue.broker.leases.receive import ReceiveResult
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.options.consume import ReceiveOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.settings import FIELDS
from miniqueue.errors import CorruptionError
from miniqueue.server.config.config import load, shown_settings
from miniqueue.server.dashboard.models import letters
from miniqueue.server.dashboard.models.facts import Facts
from miniqueue.server.dashboard.models.messages import beginning_of
from miniqueue.server.resp.commands.session import Actor
from miniqueue.server.resp.server import RespServer
from miniqueue.server.views.clients import ConnectedClient, Reading
from tests.fakes import START_MS
from tests.server.access import sign_in_for, user
from tests.server.dashboard.support import dashboard
from tests.server.resp.clients import PARAMETERS, Client

ORDERS, OTHER = Reading(b"orders", b"mail", b"w1"), Reading(b"other", b"default")
CLIENTS = [
    ConnectedClient("1", "resp", "10.0.0.1:5000", START_MS, "mailer", "ada", "redis-py", "stream", ORDERS, 3),
    ConnectedClient("2", "resp", "10.0.0.2:5000"),
    ConnectedClient("3", "resp", "10.0.0.3:5000", START_MS, "<b>", None, None, "waits", OTHER),
]


def facts(**more):
    return Facts(name="here", monitor_port=8081, resp_port=6379, **more)


async def reject(world, topic, *reasons):
    """Publish a message for each reason, and make it a dead letter."""
    for reason in reasons:
        await world.publish(topic, b"x")
        received: list[ReceiveResult] = []
        world.broker.leases.receive(topic, ReceiveOptions(), received.append, pytest.fail)
        ((prefix, leases),) = received
        receipts = [b"%b%d" % (prefix, lease.receipt) for _, lease in leases]
        assert world.broker.leases.reject(topic, receipts, reason) == [True]
    await world.broker._engine.journal.committer.flush()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", {"text": ""}),
        (b"hello", {"text": "hello"}),
        (b'{"a":\n\t"b"}\0', {"text": '{"a":  "b"} '}),
        ("é".encode() * 500, {"text": "é" * 200}),
        (b"x" + "é".encode() * 500, {"text": "x" + "é" * 199}),
        ("\U0001f600".encode() * 300, {"text": "\U0001f600" * 200}),
        (b"abc\xe2\x82", {"hex": "61 62 63 e2 82"}),
        (b"\xff" * 100, {"hex": " ".join(["ff"] * 64)}),
        ("a\u202eb\x1b[31m".encode(), {"text": "a b [31m"}),
        (b"<script>alert(1)</script>", {"text": "<script>alert(1)</script>"}),
    ],
)
def test_the_beginning_of_a_payload_is_one_line_of_text_or_bytes(payload, shown):
    assert beginning_of(payload) == shown


def test_text_that_is_cut_within_a_character_is_text():
    for count in range(796, 804):
        assert beginning_of(b"x" * count + "é\U0001f600".encode() * 3) == {"text": "x" * 200}


async def test_messages_are_paged_without_their_payloads():
    async with dashboard() as world:
        for number in range(5):
            await world.publish(b"orders", b"%d" % number * 1000)
        page = await world.data("messages?topic=orders&count=2")
        assert [message["text"][:3] for message in page["messages"]] == ["000", "111"]
        assert page["messages"][0]["bytes"] == 1000
        assert "msg" not in page["messages"][0]
        assert (page["messages"][0]["id"], page["messages"][0]["state"]) == ("0-0", "ready")
        page = await world.data(f"messages?topic=orders&count=3&after={page['next']}")
        assert [message["id"] for message in page["messages"]] == ["0-2", "0-3", "0-4"]
        assert page["next"] == "0-4"
        assert await world.data("messages?topic=orders&count=3&after=0-4") == {
            "nowMs": world.clock.now_ms(),
            "messages": [],
            "next": None,
        }


async def test_messages_are_found_by_key_content_and_reason():
    async with dashboard() as world:
        for key in (b"a", b"b"):
            world.broker.publish_with(b"orders", b"for " + key, PublishOptions(key=key))
        await world.broker._engine.journal.committer.flush()
        page = await world.data("messages?topic=orders&key=b")
        assert [message["text"] for message in page["messages"]] == ["for b"]
        assert (page["scanned"], page["next"]) == (2, None)
        assert (await world.data("messages?topic=orders&contains=or%20a&count=1"))["messages"][0]["key"] == "a"
        await reject(world, b"mail", b"broken", b"late", b"broken")
        page = await world.data("messages?topic=mail&state=dead&reason=broken")
        assert [message["origin"]["reason"] for message in page["messages"]] == ["broken", "broken"]
        assert [message["state"] for message in (await world.data("messages?topic=mail&state=dead"))["messages"]] == [
            "dead"
        ] * 3


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("topic=nothing", (404, "NOTOPIC")),
        ("topic=orders&state=what", (400, "BADOPTION")),
        ("topic=orders&after=what", (400, "BADOPTION")),
        ("topic=orders&group=nothing", (404, "NOGROUP")),
        ("topic=orders&count=101", (400, "ERR")),
        ("state=ready", (400, "ERR")),
    ],
)
async def test_messages_that_cannot_be_listed_are_an_error(query, expected):
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        assert (await world.get("/ui/data/messages?" + query)).code == expected


async def test_dead_letters_by_topic_those_that_grow_first():
    async with dashboard() as world:
        await reject(world, b"old", *[b"x"] * 5)
        for _ in range(50):
            world.clock.advance(STEP_SECONDS)
            await world.broker.overview.note()
        await reject(world, b"new", b"x", b"x")
        world.clock.advance(STEP_SECONDS)
        await world.broker.overview.note()
        listed = await world.data("dead")
        assert (listed["total"], listed["matching"]) == (2, 2)
        rows = [(row["topic"], row["deadLetterTopic"], row["dead"], row["grown"]) for row in listed["topics"]]
        assert rows == [("new", "new.dlq", 2, 2), ("old", "old.dlq", 5, 0)]
        assert [row["topic"] for row in (await world.data("dead?q=OL"))["topics"]] == ["old"]
        assert [row["topic"] for row in (await world.data("dead?count=1&page=2"))["topics"]] == ["old"]


async def test_the_list_of_dead_letters_is_made_in_turns_of_the_event_loop(monkeypatch):
    async def turns_of_a_list(world, rows_in_turn):
        monkeypatch.setattr(letters, "ROWS_IN_TURN", rows_in_turn)
        asked, turn_count = asyncio.create_task(world.get("/ui/data/dead")), 0
        while not asked.done():
            turn_count += 1
            await asyncio.sleep(0)
        assert asked.result().json["total"] == 6
        return turn_count

    async with dashboard() as world:
        for number in range(6):
            await reject(world, b"mail-%d" % number, b"late")
        await world.data("dead")  # its survey is used again below
        assert await turns_of_a_list(world, 1) >= await turns_of_a_list(world, 1_000) + 12 + 6


async def test_dead_letters_are_listed_while_their_topic_is_deleted():
    async with dashboard() as world:
        await reject(world, b"mail", b"late")
        assert [row["topic"] for row in (await world.data("dead"))["topics"]] == ["mail"]
        await world.broker.delete_topic(b"mail")
        reply = await world.get("/ui/data/dead")  # the same survey, which still has the topic
        assert [(row["topic"], row["dead"]) for row in reply.json["topics"]] == [("mail.dlq", 1)]


async def test_a_topic_of_dead_letters_of_several_stands_for_them():
    async with dashboard() as world:
        for name in (b"a", b"b"):
            await world.broker.admin.create(name, {"dead_letter_topic": "dead"}).wait()
            await reject(world, name, b"broken")
        (row,) = (await world.data("dead"))["topics"]
        assert (row["topic"], row["deadLetterTopic"], row["dead"]) == ("dead", "dead", 2)
        reasons = await world.data("dead?topic=a")
        assert (reasons["examined"], [each["count"] for each in reasons["reasons"]]) == (1, [1])
        assert reasons["total"] is None  # unknown, as in the row of the topic
        world.clock.advance(STEP_SECONDS)
        await world.broker.overview.note()
        assert (await world.data("history?topic=a"))["series"]["dead"] == [None]


async def test_the_reasons_of_dead_letters_the_most_frequent_first(monkeypatch):
    async with dashboard() as world:
        await world.publish(b"quiet", b"x")
        await reject(world, b"mail", b"late")
        world.clock.advance(5)
        await reject(world, b"mail", b"<b>broken</b>", b"<b>broken</b>")
        found = await world.data("dead?topic=mail")
        assert (found["deadLetterTopic"], found["examined"], found["total"]) == ("mail.dlq", 3, 3)
        assert found["isPart"] is False
        reasons = [(each["reason"], each["count"], each["lastMs"] - each["firstMs"]) for each in found["reasons"]]
        assert reasons == [("<b>broken</b>", 2, 0), ("late", 1, 0)]
        assert (await world.data("dead?topic=quiet"))["reasons"] == []
        monkeypatch.setattr(letters, "EXAMINED", 2)
        found = await world.data("dead?topic=mail")
        assert (found["examined"], found["isPart"], found["total"]) == (2, True, 3)
        assert (await world.get("/ui/data/dead?topic=nothing")).code == (404, "NOTOPIC")


async def test_every_setting_of_topics_is_explained_as_plain_text():
    async with dashboard() as world:
        settings = {each["name"]: each for each in (await world.data("settings"))["settings"]}
        assert settings.keys() == FIELDS.keys()
        assert all("](" not in each["meaning"] and "`" not in each["meaning"] for each in settings.values())
        kinds = {name: settings[name]["kind"] for name in ("trace", "retention", "max_deliveries", "schema", "owner")}
        assert kinds == {
            "trace": "flag",
            "retention": "choice",
            "max_deliveries": "number",
            "schema": "json",
            "owner": "text",
        }
        assert settings["retry_delays"]["kind"] == "list"
        assert settings["idle_groups"]["kind"] == "json"
        assert settings["limit_policy"]["choices"] == ["refuse", "drop-oldest", "dead-letter"]
        assert [name for name, each in settings.items() if each["onlyGrows"]] == ["partitions"]


async def test_clients_are_found_by_what_is_known_of_them():
    async with dashboard(facts=facts(clients=lambda: CLIENTS)) as world:
        listed = await world.data("connections")
        assert (listed["total"], [each["id"] for each in listed["connections"]]) == (3, ["1", "2", "3"])
        first, second, _ = listed["connections"]
        assert first == {
            "id": "1",
            "protocol": "resp",
            "address": "10.0.0.1:5000",
            "name": "mailer",
            "user": "ada",
            "library": "redis-py",
            "connectedAtMs": START_MS,
            "topic": "orders",
            "group": "mail",
            "member": "w1",
            "leased": 3,
            "mode": "stream",
        }
        assert (second["name"], second["topic"], second["leased"]) == (None, None, 0)
        for query, ids in (("q=ADA", ["1"]), ("q=0.2", ["2"]), ("topic=other", ["3"]), ("count=1&page=2", ["2"])):
            assert [each["id"] for each in (await world.data("connections?" + query))["connections"]] == ids


async def test_who_holds_leases_of_requests_is_listed_for_a_topic():
    async with dashboard() as world:
        await world.broker.admin.create(b"orders", {}).wait()
        await world.broker.groups.create(b"orders", b"mail")
        await world.publish(b"orders", *[b"x"] * 5)
        for group, address, count in ((b"mail", "10.0.0.1", 2), (b"default", "10.0.0.2", 3)):
            CURRENT_ACTOR.set(Actor(account=world.broker.memory.connect(address)))
            options = ReceiveOptions(max_count=count, group=group, lease_seconds=60)
            world.broker.leases.receive(b"orders", options, lambda _: None, pytest.fail)
        ends_at_ms = world.clock.now_ms() + 60_000
        assert (await world.data("connections?topic=orders"))["holders"] == [
            {"group": "default", "user": None, "address": "10.0.0.2", "leased": 3, "firstEndsAtMs": ends_at_ms},
            {"group": "mail", "user": None, "address": "10.0.0.1", "leased": 2, "firstEndsAtMs": ends_at_ms},
        ]
        assert (await world.data("connections?topic=nothing"))["holders"] == []
        assert "holders" not in await world.data("connections")


async def test_connections_over_resp_are_listed(world):
    server = RespServer(world.broker, PARAMETERS)
    client, other = Client(server), Client(server)
    client.send(b"CLIENT", b"SETNAME", b"mailer")
    await world.publish(b"orders", b"x")
    client.send(b"SUBSCRIBE", b"orders", b"GROUP", b"mail")
    first, second = server.listed()
    assert (first.name, first.user, first.mode, first.reading) == (
        "mailer",
        None,
        "stream",
        Reading(b"orders", b"mail"),
    )
    assert (second.mode, second.reading) == ("commands", None)
    assert first.address.startswith("127.0.0.1:")
    del other


async def test_the_broker_shows_its_limits_and_no_secrets():
    config = load(["-users", "u.toml", "-max-topics", "10"], {"MINIQUEUE_PASSWORD": "geheim"})
    shown = facts(
        settings=shown_settings(config),
        store_path="/var/lib/miniqueue",
        certificate_expires_at=lambda: datetime(2030, 1, 1, tzinfo=UTC),
        followers=lambda: {"0123abcd": (0.5, 100)},
    )
    async with dashboard(facts=shown) as world:
        await world.publish(b"orders", b"xx")
        reply = await world.get("/ui/data/broker")
        broker = reply.json
        assert b"geheim" not in reply.body
        assert broker["ready"] == {"status": "ok", "refused": [], "reasons": []}
        assert {"flag": "-max-topics", "value": "10", "default": False} in broker["settings"]
        assert {"flag": "-port", "value": "8080", "default": True} in broker["settings"]
        texts = {each["flag"]: each["value"] for each in broker["settings"]}
        flags = ("-min-free", "-lease", "-pipeline-time", "-idle-timeout", "-resp-tls", "-max-memory", "-human")
        assert [texts[flag] for flag in flags] == ["256MiB", "30s", "2ms", "1h", "false", "0", ""]
        assert (broker["storeBytes"], broker["storePath"], broker["users"]) == (2, "/var/lib/miniqueue", None)
        assert broker["certificateExpiresAtMs"] == 1_893_456_000_000
        assert broker["followers"] == [{"name": "0123abcd", "lagSeconds": 0.5, "lagBytes": 100}]
        assert {limit["name"] for limit in broker["limits"]} >= {"topics", "partitions", "connections", "memory"}
        assert broker["usage"][0]["user"] is None
        assert broker["tasks"] == []


async def test_the_broker_says_what_it_refuses():
    async with dashboard() as world:
        await world.publish(b"orders", b"x")
        world.broker._engine.topics.by_name[b"orders"].fault = CorruptionError("bytes are missing")
        world.broker._engine.journal.admission.set_full(True, 0)
        ready = (await world.data("broker"))["ready"]
        assert (ready["status"], ready["refused"]) == ("degraded", ["publish"])
        assert ready["reasons"][1] == "topic orders: bytes are missing"


USERS = [
    user("ada", monitor=("orders.*",)),
    user("all", monitor=("*",)),
    user("root", admin=("*",)),
]


async def test_users_see_of_the_broker_what_their_roles_allow():
    async with dashboard(sign_in_for(*USERS), facts(store_path="/srv", clients=lambda: CLIENTS)) as world:
        await world.publish(b"orders.eu", b"x")
        ada, everything, root = [await world.sign_in_as(each.name) for each in USERS]
        views = "broker", "connections", "connections?topic=orders.eu", "messages?topic=secret", "dead?topic=secret"
        for view in views:
            assert (await world.get("/ui/data/" + view, ada)).code == (403, "NOPERM"), view
            assert (await world.get("/ui/data/" + view)).code == (401, "NOAUTH"), view
        assert (await world.get("/ui/data/connections?topic=orders.eu", everything)).status == 200
        assert (await world.get("/ui/data/settings", ada)).status == 200
        broker = await world.data("broker", everything)
        assert (broker["users"], broker["settings"], broker["storePath"]) == (None, None, None)
        broker = await world.data("broker", root)
        assert [each["user"] for each in broker["users"]] == ["ada", "all", "root"]
        assert broker["users"][0]["roles"] == [{"role": "monitor", "topics": ["orders.*"]}]
        assert broker["storePath"] == "/srv"
        assert b"token" not in (await world.get("/ui/data/broker", root)).body


async def test_dead_letters_of_topics_that_a_user_may_not_monitor_are_not_listed():
    async with dashboard(sign_in_for(*USERS)) as world:
        await reject(world, b"orders.eu", b"x")
        await reject(world, b"secret", b"x")
        listed = await world.data("dead", await world.sign_in_as("ada"))
        assert (listed["total"], [row["topic"] for row in listed["topics"]]) == (1, ["orders.eu"])


async def test_dead_letters_in_a_topic_that_the_user_may_not_monitor_are_not_counted():
    async with dashboard(sign_in_for(user("ada", monitor=("orders",)))) as world:
        await reject(world, b"orders", b"x")
        listed = await world.data("dead", await world.sign_in_as("ada"))
        assert (listed["total"], listed["matching"], listed["topics"]) == (0, 0, [])


async def test_a_message_by_its_id_is_that_of_the_api():
    async with dashboard() as world:
        published = world.broker.publish(b"orders", [b"x"])
        await published.commit.wait()
        (message,) = (await world.data("messages?topic=orders"))["messages"]
        assert message["id"] == format_message_id(published.partition, published.first_seq).decode()
        assert (await world.get("/ui/api/topics/orders/messages/" + message["id"])).json["msg"] == "eA=="
