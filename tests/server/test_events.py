"""EVENTS and GET /events: what happens in the broker, to clients of both protocols."""

import asyncio

import orjson
import pytest

from miniqueue.broker.model.limits import Limit
from miniqueue.broker.runtime import notices
from miniqueue.broker.runtime.notices import MAX_WAITING, NoticeKind
from miniqueue.server.http.app import HttpApp
from miniqueue.server.resp.server import RespServer
from miniqueue.server.security.authentication import Authenticator
from tests.fakes import START_MS, settle_down
from tests.model.protocols import HttpRequest, RespWire
from tests.server.access import sign_in_for, token_of, user
from tests.server.resp.clients import PARAMETERS, command


class RespEars:
    """A RESP connection after EVENTS."""

    def __init__(self, world, *types: bytes, name: str = "", sign_in: Authenticator | None = None) -> None:
        self.wire = RespWire(RespServer(world.broker, PARAMETERS, sign_in))
        if name:
            self.wire.send([b"AUTH", name.encode(), token_of(name)])
        self.wire.send([b"EVENTS", *types])

    async def take(self) -> list[dict]:
        await settle_down()
        told = [reply for reply in self.wire.replies() if isinstance(reply, list)]
        return [{"type": kind.decode(), **_named(words)} for _, kind, words in told]

    def leave(self) -> None:
        self.wire.transport.lose()


class HttpEars:
    """A request for server-sent events."""

    def __init__(self, world, *types: bytes, name: str = "", sign_in: Authenticator | None = None) -> None:
        query = b"types=" + b",".join(types) if types else b""
        self.request = HttpRequest(
            HttpApp(world.broker, sign_in), "GET", b"/events", query, token=token_of(name) if name else b""
        )

    async def take(self) -> list[dict]:
        await settle_down()
        events = [event.split(b"\n") for event in self.request.take().split(b"\n\n") if event not in (b"", b":")]
        return [_parsed(lines) for lines in events]

    def leave(self) -> None:
        self.request.disconnect()


def _named(words: list) -> dict:
    pairs = zip(words[::2], words[1::2], strict=True)
    return {
        name.decode(): [each.decode() for each in value] if isinstance(value, list) else _plain(value)
        for name, value in pairs
    }


def _plain(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


def _parsed(lines: list[bytes]) -> dict:
    fields = dict(line.split(b": ", 1) for line in lines)
    data = orjson.loads(fields[b"data"])
    assert fields.get(b"id", b"1").isdigit()
    return {"type": fields[b"event"].decode(), "at_ms": data.pop("atMs"), **data}


@pytest.mark.parametrize("kind", [RespEars, HttpEars])
async def test_a_client_is_told_what_happens_from_now_on(kind, world):
    await world.publish(b"before", b"x")
    ears = kind(world, b"topic-created", b"topic-changed")
    assert await ears.take() == []
    await world.publish(b"t", b"x")
    await world.broker.admin.change(b"t", {"ttl_seconds": 5}).wait()
    await world.broker.delete_topic(b"t")
    told = await ears.take()
    for event in told:
        event.pop("by", None)  # the client itself over RESP, whose context this is
    assert told == [
        {"type": "topic-created", "at_ms": START_MS, "topic": "t"},
        {"type": "topic-changed", "at_ms": START_MS, "topic": "t", "settings": ["ttl_seconds"]},
    ]
    ears.leave()
    await settle_down()
    assert not world.broker.notices.is_heard


@pytest.mark.parametrize("kind", [RespEars, HttpEars])
async def test_a_user_is_told_of_topics_that_it_may_monitor(kind, world):
    sign_in = sign_in_for(user("eye", monitor=("t*",)), user("all", monitor=("*",)), user("pub", publisher=("*",)))
    ears = {name: kind(world, name=name, sign_in=sign_in) for name in ("eye", "all", "pub")}
    await settle_down()
    await world.publish(b"t", b"x")
    await world.publish(b"u", b"x")
    world.broker.limit_counts.reached(Limit.TOPICS)
    world.broker.tick()
    told = {name: [(event["type"], event.get("topic")) for event in await one.take()] for name, one in ears.items()}
    everything = [("topic-created", "t"), ("topic-created", "u"), ("limit-reached", None)]
    assert told == {"eye": everything[:1], "all": everything, "pub": []}
    for one in ears.values():
        one.leave()


async def test_one_client_too_many_is_refused(world, client, monkeypatch):
    monkeypatch.setattr(notices, "MAX_LISTENERS", 0)
    assert await client.say(b"EVENTS") == b"-LIMIT too many clients listen to events; at most 0\r\n"
    assert await client.say(b"PUBLISH t a") == b"+OK\r\n"
    request = HttpRequest(HttpApp(world.broker), "GET", b"/events")
    await settle_down()
    assert request.status == 507


async def test_a_resp_connection_that_listens_allows_few_commands(world, client):
    assert await client.say(b"EVENTS topic-created") == b"+OK\r\n"
    assert await client.say(b"PING") == b"+PONG\r\n"
    refusal = b"-ERR a connection that listens to events allows only PING, QUIT, RESET; use another connection\r\n"
    assert await client.say(b"PUBLISH t a") == refusal
    assert await client.say(b"RESET") == b"+RESET\r\n"
    assert not world.broker.notices.is_heard
    assert await client.say(b"PUBLISH t a") == b"+OK\r\n"
    assert (await client.say(b"EVENTS rain")).startswith(b"-BADOPTION a type of event is one of topic-created, ")


async def test_in_version_3_the_details_are_a_map(world, client):
    await client.say(b"HELLO 3")
    await client.say(b"EVENTS")
    await world.publish(b"t", b"a")
    await settle_down()
    assert client.transport.take().startswith(b"*3\r\n$5\r\nevent\r\n$13\r\ntopic-created\r\n%3\r\n$5\r\nat_ms\r\n")


async def test_http_refuses_a_type_that_is_none_and_ends_streams_at_a_stop(world):
    app = HttpApp(world.broker)
    refused = HttpRequest(app, "GET", b"/events", b"types=rain")
    streams = HttpRequest(app, "GET", b"/events")
    await settle_down()
    assert (refused.status, streams.status) == (400, 200)
    assert streams.take() == b":\n\n"
    app.answer_waiting()
    await settle_down()
    assert streams.is_over


async def test_what_an_http_client_does_not_read_is_bounded_and_counted(world):
    sent, may_go_on = [], asyncio.Event()

    async def send(message):
        sent.append(message.get("body", b""))
        if b"event: " in sent[-1]:  # the window of the client is full
            await may_go_on.wait()

    scope = {"type": "http", "method": "GET", "path": "/events", "raw_path": b"/events", "query_string": b""}
    never = asyncio.get_running_loop().create_future()
    request = asyncio.create_task(HttpApp(world.broker)({**scope, "headers": []}, lambda: never, send))
    for number in range(2 * MAX_WAITING):
        if number < 2:
            await settle_down()
        world.broker.notices.report(NoticeKind.TOPIC_CREATED, b"t%d" % number)
    await settle_down()
    assert b"".join(sent).count(b"event: topic-created") == 1
    may_go_on.set()
    await settle_down()
    told, lost = b"".join(sent).split(b"event: lost")
    waited_count = told.count(b"event: topic-created")
    assert 100 < waited_count <= 1 + MAX_WAITING
    assert orjson.loads(lost.split(b"data: ")[1]) == {"atMs": START_MS, "count": 2 * MAX_WAITING - waited_count}
    request.cancel()
    await settle_down()
    assert not world.broker.notices.is_heard


async def test_what_waits_for_a_commit_before_events_is_bounded(world, client):
    world.store.may_write.clear()
    client.connection.data_received(command(b"PUBLISH", b"t", b"a") + command(b"EVENTS", b"topic-changed"))
    for number in range(5000):
        world.broker.notices.report(NoticeKind.TOPIC_CHANGED, b"t%d" % number)
        if number % 100 == 0:
            await settle_down()
    world.store.may_write.set()
    await settle_down()
    world.broker.tick()
    await settle_down()
    sent = client.transport.take()
    assert sent.startswith(b"+OK\r\n+OK\r\n*3\r\n$5\r\nevent\r\n$13\r\ntopic-changed\r\n")
    assert 600 < sent.count(b"topic-changed") < 3000
    assert sent.count(b"$4\r\nlost\r\n") == 1
