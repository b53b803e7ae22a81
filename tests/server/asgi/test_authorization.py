"""HTTP with users: every route for every role, how users authenticate, and what ends when they are revoked."""

import asyncio
import base64
from contextlib import asynccontextmanager, suppress

import orjson
import pytest

from miniqueue.access import hashing
from miniqueue.access.hashing import hash_password
from miniqueue.access.rights import ROUTES, Right
from miniqueue.access.users import User, Users
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.settings.schedule import Schedule
from miniqueue.errors.requests import GroupExistsError, UnknownTopicError
from miniqueue.server.asgi import authorization
from miniqueue.server.http.app import HttpApp
from miniqueue.server.monitor.app import MonitorApp
from miniqueue.server.security import authentication
from miniqueue.server.security.authentication import MAX_CONNECTION_FAILURES, Authenticator
from tests.fakes import FakeConsumer, FaultyStore, ManualClock, broker_on
from tests.server.access import EVERYBODY, Clock, Naps, sign_in_for, token_of, user
from tests.serving import NDJSON, Lines, serving

MONITOR_PATHS = {"/healthz", "/livez", "/readyz", "/metrics", "/stats", "/backup", "/changes"}
#: The routes of a broker with shards, tests/server/shards/http.
OF_SHARDS = {("GET", "/shards/{n}/backup"), ("GET", "/shards/{n}/changes")}
QUEUE_ROUTES = {route for route in ROUTES if "{topic}" in route[1]}
#: The rights of each role, written a second time by hand.
ALLOWED = {
    "/publish/{topic}": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    "/request/{topic}": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    "/subscribe/{topic}": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    "/{topic}": {"admin", "admin-of-all"},
    "/topics/{topic}": {"admin", "admin-of-all"},
    ("GET", "/topics/{topic}"): {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    **{
        f"/topics/{{topic}}/{act}": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"}
        for act in ("receive", "reply", "ack", "nack", "back", "dack", "reject", "extend")
    },
    ("DELETE", "/topics"): {"admin-of-all"},
    ("DELETE", "/schedules"): {"admin-of-all"},
    ("DELETE", "/leases"): {"admin-of-all"},
    ("DELETE", "/events"): {"admin-of-all"},
    "/events": {each.name for each in EVERYBODY},
    ("DELETE", "/usage"): {"admin-of-all"},
    ("DELETE", "/receive"): {"admin-of-all"},
    ("POST", "/receive"): {"subscriber-of-all", "admin-of-all"},
    ("DELETE", "/transactions"): {"admin-of-all"},
    "/usage": {each.name for each in EVERYBODY},
    ("GET", "/leases"): {"subscriber-of-all", "admin-of-all"},
    "/schedules": {"monitor-of-all", "admin-of-all"},
    "/schedules/{name}": {"admin-of-all"},
    ("GET", "/schedules/{name}"): {"monitor-of-all", "admin-of-all"},
    "/topics/{topic}/redrive": {"admin", "admin-of-all"},
    "/topics/{topic}/pause": {"admin", "admin-of-all"},
    "/topics/{topic}/groups/{id}": {"admin", "admin-of-all"},
    "/topics/{topic}/groups/{id}/seek": {"admin", "admin-of-all"},
    "/topics/{topic}/groups/{id}/holders": {"monitor-of-all", "admin-of-all"},
    "/topics/{topic}/groups/{id}/pause": {"admin", "admin-of-all"},
    "/topics/{topic}/groups/{id}/resume": {"admin", "admin-of-all"},
    "/topics/{topic}/groups": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    ("GET", "/topics/{topic}/groups/{id}"): {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    "/topics/{topic}/resume": {"admin", "admin-of-all"},
    "/topics/{topic}/purge": {"admin", "admin-of-all"},
    "/topics/{topic}/messages": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    "/topics/{topic}/messages/{id}": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    "/topics/{topic}/search": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    "/topics/{topic}/messages/{id}/trace": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    ("DELETE", "/topics/{topic}/messages/{id}"): {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    **{f"/topics/{{topic}}/messages/{{id}}/{act}": {"admin", "admin-of-all"} for act in ("front", "redrive", "due")},
    "/schedules/{name}/fire": {"admin-of-all"},
    ("POST", "/topics/{topic}/messages/{id}"): {"admin", "admin-of-all"},
    ("DELETE", "/tasks"): {"admin-of-all"},
    "/topics/{topic}/partitions": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    "/topics/{topic}/partitions/{id}": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    "/metrics": {"monitor-of-all", "admin-of-all"},
    "/stats": {"monitor-of-all", "admin-of-all"},
    "/backup": {"admin-of-all"},
    "/changes": {"admin-of-all"},
}
#: Good for every route that reads a body.
BODY = b'{"receipts":["x"],"delaySeconds":1,"leaseSeconds":1,"reason":"broken"}'
#: Queries for routes that would wait otherwise, and the statuses that show that a user was allowed.
QUERIES = {
    "/request/{topic}": b"timeout=none",
    "/topics/{topic}/reply": b"receipt=",
    "/topics/{topic}/groups/{id}/seek": b"to=latest",
    "/leases": b"topic=topics",
    "/receive": b"topic=topics",
    "/events": b"types=none",
    "/changes": b"follower=0123abcd&change=1&digest=00",
}
LET_IN = {
    "/request/{topic}": 400,
    "/topics/{topic}/reply": 409,
    "/transactions": 400,
    "/topics/{topic}/messages/{id}/trace": 404,
    **dict.fromkeys((f"/topics/{{topic}}/messages/{{id}}/{act}" for act in ("front", "redrive", "due")), 409),
    "/changes": 410,
    "/tasks/{id}": 404,
    "/topics/{topic}/messages/{id}": 400,  # which is no act
    "/events": 400,
}
#: What is sent to routes that do not take everything.
BODIES = {"/topics/{topic}": b"{}", "/schedules/{name}": b'{"topic":"orders","every":60,"text":"x"}'}
ADA = User("ada", hash_password(b"correct: horse"), roles={"admin": ("*",)})


def basic(name: str, secret: bytes) -> tuple[bytes, bytes]:
    return (b"authorization", b"Basic " + base64.b64encode(name.encode() + b":" + secret))


def bearer(name: str) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + token_of(name))


class World:
    """Both applications on a broker in memory, asked without a server."""

    def __init__(self, broker, signing_in) -> None:
        self.broker, self.sign_in = broker, signing_in
        self.queue, self.monitor = HttpApp(broker, signing_in), MonitorApp(broker, signing_in)
        self.has_read = False

    async def ask(self, method, path, *headers, client=("10.0.0.1", 1), body=BODY, query=b""):
        """Return status, headers and body of the answer; an endless reply is broken off after its beginning."""
        sent, has_begun = [], asyncio.Event()

        async def receive():
            is_first = not self.has_read
            self.has_read = True
            if is_first:
                return {"type": "http.request", "body": body}
            await has_begun.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)
            has_begun.set()

        self.has_read = False
        headers = [(b"host", b"localhost"), *headers]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query}
        app = self.monitor if path in MONITOR_PATHS else self.queue
        await app(scope | {"headers": headers, "client": client}, receive, send)
        return sent[0]["status"], sent[0]["headers"], b"".join(part["body"] for part in sent[1:])


@asynccontextmanager
async def gated(*users, signing_in=None):
    """Yield world."""

    broker = broker_on(FaultyStore(), ManualClock())
    await broker.start()
    try:
        yield World(broker, signing_in or sign_in_for(*users))
    finally:
        await broker.stop()


async def test_the_table_has_the_routes_of_both_applications_and_no_other():
    paths = {name for name in ALLOWED if isinstance(name, str)}
    routes = {route: needs for route, needs in ROUTES.items() if route not in OF_SHARDS}
    assert paths == {path for (_, path), needs in routes.items() if needs.right not in (Right.OPEN, Right.KNOWN)} - {
        "/topics",
        "/leases",
        "/receive",
        "/tasks",
        "/tasks/{id}",
        "/transactions",
    }

    async with gated() as world:
        of_dashboard = {route for route in ROUTES if route[1].startswith("/ui")}
        served = {(method, path) for path, methods in world.queue._routes.items() for method in methods._endpoints}
        served |= {(method, route.path) for route in world.monitor._router.routes for method in route.app._endpoints}
        assert served == routes.keys() - of_dashboard  # tests/server/dashboard has those


def test_a_route_without_rights_cannot_be_served():
    with pytest.raises(KeyError):
        authorization.routes({("GET", "/nothing"): None}, authorization.AuthMiddleware(sign_in_for()))


@pytest.mark.parametrize("topic", ["orders", "other"])
@pytest.mark.parametrize("caller", EVERYBODY, ids=lambda caller: caller.name)
async def test_every_route_is_for_the_users_in_the_table(caller, topic):
    async with gated() as world:
        await world.broker.publish(topic.encode(), [b"x"]).commit.wait()
        for (method, path), needs in ROUTES.items():
            if path.startswith(("/ui", "/shards")):
                continue  # tests/server/dashboard and tests/server/shards have those
            for name in (b"topics", topic.encode()):
                with suppress(UnknownTopicError):
                    world.broker.admin.resume(name)
                await world.broker.publish(name, [b"x"]).commit.wait()
            world.broker.scheduler.set(b"s", Schedule(b"orders", b"x", every_ms=60_000))
            body = BODIES.get(path, BODY)
            delayed = world.broker.publish_with(topic.encode(), b"x", PublishOptions(delay_seconds=60))
            with suppress(GroupExistsError):
                await world.broker.groups.create(topic.encode(), b"there")
            group_path = path.replace("groups/{id}", "groups/new" if method == "PUT" else "groups/there")
            sent_path = group_path.replace("{id}", delayed.message_id.decode()) if method == "DELETE" else group_path
            sent_path = (
                sent_path.replace("{topic}", topic).replace("partitions/{id}", "partitions/0").replace("{id}", "0-0")
            )
            sent_path = sent_path.replace("{name}", "s")
            status, _, _ = await world.ask(
                method, sent_path, bearer(caller.name), body=body, query=QUERIES.get(path, b"")
            )
            allowed = ALLOWED.get((method, path)) or ALLOWED.get(path, {user.name for user in EVERYBODY})
            if needs.topic_at and topic == "other":
                allowed = {name for name in allowed if name.endswith("-of-all")}
            assert (status == 403) is (caller.name not in allowed), (method, path, status)
            assert (status in (200, 201, LET_IN.get(path))) is (caller.name in allowed), (method, path, status)


@pytest.mark.parametrize(
    ("name", "topics"), [("monitor", ["orders"]), ("monitor-of-all", ["orders", "other"]), ("publisher", [])]
)
async def test_only_topics_that_the_user_may_look_into_are_listed(name, topics):
    async with gated() as world:
        for topic in (b"orders", b"other"):
            await world.broker.publish(topic, [b"x"]).commit.wait()
        _, _, text = await world.ask("GET", "/topics", bearer(name))
        assert [topic["topic"] for topic in orjson.loads(text)["topics"]] == topics


@pytest.mark.parametrize(
    ("method", "path"), sorted(route for route in ROUTES if not route[1].startswith(("/ui", "/shards")))
)
async def test_without_credentials_only_health_is_reported(method, path):
    async with gated() as world:
        status, headers, text = await world.ask(method, path.replace("{topic}", "orders").replace("{id}", "0-0"))
        if ROUTES[method, path].right is Right.OPEN:
            assert status == 200
            return
        assert (status, text) == (401, b'{"error":"Authentication required.","code":"NOAUTH"}')
        challenges = [value for name, value in headers if name == b"www-authenticate"]
        assert challenges == [b'Basic realm="miniqueue", charset="UTF-8"', b'Bearer realm="miniqueue"']


@pytest.mark.parametrize(("method", "path"), sorted(QUEUE_ROUTES))
@pytest.mark.parametrize("headers", [(), (bearer("stranger"),), (bearer("wrong"),)], ids=["none", "stranger", "wrong"])
async def test_a_request_is_refused_before_the_body_is_read(method, path, headers):
    async with gated() as world:
        status, _, _ = await world.ask(method, path.replace("{topic}", "orders"), *headers)
        assert status in (401, 403)
        assert not world.has_read
        assert world.broker.topics() == []


async def test_json_lines_take_the_same_right():
    async with gated() as world:
        refused = await world.ask("POST", "/publish/orders", bearer("subscriber-of-all"), NDJSON, body=b'"x"')
        assert refused[0] == 403
        taken = await world.ask("POST", "/publish/orders", bearer("publisher"), NDJSON, body=b'"x"')
        assert taken[0] == 200
        assert FakeConsumer(world.broker, b"orders").drain() == [b"x"]


@pytest.mark.parametrize("path", ["/publish/%6Frders", "/publish/orders"])
async def test_the_topic_is_that_which_is_published_to(path):
    async with gated() as world:
        assert (await world.ask("POST", path, bearer("publisher")))[0] == 201
        assert world.broker.topics() == [b"orders"]
        assert (await world.ask("POST", "/publish/orders%2Eeu", bearer("publisher")))[0] == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([basic("ada", b"correct: horse")], 201),
        ([(b"authorization", basic("ada", b"correct: horse")[1].replace(b"Basic", b"bAsIc"))], 201),
        ([basic("robot", token_of("robot"))], 201),
        ([bearer("robot")], 201),
        ([basic("ada", b"correct")], 401),
        ([basic("robot", b"")], 401),
        ([basic("eve", b"x")], 401),
        ([(b"authorization", b"Basic !!!")], 401),
        ([(b"authorization", b"Basic " + base64.b64encode(b"ada"))], 401),
        ([(b"authorization", b"Digest x")], 401),
        ([(b"authorization", b"Bearer")], 401),
        ([(b"authorization", b"")], 401),
        ([bearer("robot"), bearer("robot")], 401),
        ([bearer("robot"), bearer("eve")], 401),
    ],
)
async def test_how_users_authenticate(headers, status):
    async with gated(ADA, user("robot", admin=("*",))) as world:
        assert (await world.ask("POST", "/publish/t", *headers))[0] == status


async def test_a_password_is_verified_once_for_each_connection(monkeypatch):
    async with gated(ADA) as world:
        looks = []
        identify = world.sign_in.identify

        async def counted(*arguments):
            looks.append(arguments)
            return await identify(*arguments)

        monkeypatch.setattr(world.sign_in, "identify", counted)
        for port in (1, 1, 2, 1, 2):
            answer = await world.ask("POST", "/publish/t", basic("ada", b"correct: horse"), client=("10.0.0.1", port))
            assert answer[0] == 201
        assert len(looks) == 2
        world.sign_in.replace(Users([User("ada", ADA.secret, roles={"monitor": ("*",)})]))
        assert (await world.ask("POST", "/publish/t", basic("ada", b"correct: horse")))[0] == 403


@pytest.mark.parametrize(("secret", "outcome"), [(b"correct: horse", 200), (b"wrong", 401)])
async def test_requests_that_come_together_have_their_password_verified_once(monkeypatch, secret, outcome):
    async with gated(ADA) as world:
        looks = []
        monkeypatch.setattr(
            authentication, "matches", lambda stored, secret: looks.append(stored) or hashing.matches(stored, secret)
        )
        asked = [world.ask("GET", "/stats", basic("ada", secret)) for _ in range(10)]
        assert {status for status, _, _ in await asyncio.gather(*asked)} == {outcome}
        assert len(looks) == 1


async def test_the_number_of_remembered_connections_is_bounded(monkeypatch):
    monkeypatch.setattr(authorization, "MAX_KNOWN", 3)

    async with gated() as world:
        middleware = authorization.AuthMiddleware(world.sign_in)
        for port in range(10):
            await middleware.user_of({"headers": [bearer("stranger")], "client": ("10.0.0.1", port)})
        assert len(middleware._known) == 3


async def test_five_wrong_secrets_silence_a_connection_and_no_other():
    async with gated(ADA) as world:
        for _ in range(MAX_CONNECTION_FAILURES):
            assert (await world.ask("GET", "/stats", bearer("eve")))[0] == 401
        status, headers, _ = await world.ask("GET", "/stats", bearer("eve"))
        assert (status, dict(headers)[b"retry-after"]) == (429, b"60")
        password = basic("ada", b"correct: horse")
        assert (await world.ask("GET", "/stats", password))[0] == 429
        assert (await world.ask("GET", "/stats", password, client=("10.0.0.1", 2)))[0] == 200


async def test_a_user_who_is_known_on_a_connection_is_not_silenced_by_others_on_it():
    """A proxy may send the requests of many on one connection."""
    async with gated(ADA) as world:
        password = basic("ada", b"correct: horse")
        assert (await world.ask("GET", "/stats", password))[0] == 200
        for _ in range(MAX_CONNECTION_FAILURES + 1):
            await world.ask("GET", "/stats", bearer("eve"))
        assert (await world.ask("GET", "/stats", password))[0] == 200


async def test_a_wrong_secret_is_reported_after_a_time():
    async with gated(signing_in=Authenticator(Users(EVERYBODY), monotonic=Clock(), sleep=Naps())) as world:
        await world.ask("GET", "/stats", bearer("eve"))
        assert world.sign_in._sleep.seconds == [0.25]


async def test_streams_of_a_revoked_user_end_and_what_they_held_returns(certificates):
    signing_in = sign_in_for(user("worker", subscriber=("*",)), user("other", subscriber=("*",), publisher=("*",)))
    async with serving(certificates, sign_in=signing_in) as served:
        await served.broker.publish(b"t", [b"1", b"2"]).commit.wait()
        revoked = Lines(await served.begin("/subscribe/t", bearer("worker")))
        publishing = await served.begin("/publish/t", bearer("worker"))
        other = Lines(await served.begin("/subscribe/t", bearer("other")))
        for lines in (revoked, other):
            lines.say("INIT")
            assert await lines.hear()
        assert await publishing.response() == 403
        signing_in.replace(Users([user("other", subscriber=("*",), publisher=("*",))]))
        served.app.cut_off()
        assert await revoked.hear() is None
        other.say("ACK")
        assert await other.hear() == {"msg": base64.b64encode(b"1").decode()}


async def test_a_body_under_way_is_broken_off_when_its_user_is_revoked():
    async with gated() as world:

        async def receive():
            if not parts[1:]:
                world.sign_in.replace(Users())
            return parts.pop(0)

        parts = [{"type": "http.request", "body": half, "more_body": half == b"1"} for half in (b"1", b"2")]
        headers = [bearer("publisher")]
        path = {"path": "/publish/orders", "raw_path": b"/publish/orders", "query_string": b""}
        await world.queue({"type": "http", "method": "POST", "headers": headers} | path, receive, None)
        assert parts == []
        assert world.broker.topics() == []


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_dead_letters_go_only_where_the_user_may_publish(method):
    async with gated() as world:
        world.broker.publish(b"orders", [b"x"])
        settings = b'{"dead_letter_topic": "secret"}'
        assert (await world.ask(method, "/topics/orders", bearer("admin"), body=settings))[0] == 403
        assert (await world.ask(method, "/topics/orders", bearer("admin"), body=b"{}"))[0] == 200
        assert (await world.ask(method, "/topics/orders", bearer("admin-of-all"), body=settings))[0] == 200


async def test_messages_are_moved_only_to_where_the_user_may_publish():
    async with gated() as world:
        world.broker.publish(b"orders", [b"x"])
        path = "/topics/orders/redrive"
        assert (await world.ask("POST", path, bearer("admin"), query=b"to=secret"))[0] == 403
        assert (await world.ask("POST", path, bearer("admin-of-all"), query=b"to=secret"))[0] == 200
