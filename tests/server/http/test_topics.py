"""Topics and their settings over HTTP; errors name the setting."""

import asyncio
import json

import orjson
import pytest

from miniqueue.core.settings import settings as topic_settings
from miniqueue.server.http.app import HttpApp
from tests.fakes import FakeConsumer, settle_down
from tests.serving import eventually, serving

DEFAULTS = orjson.loads(orjson.dumps(dict(topic_settings.DEFAULTS)))
REFUSED = [
    ("PUT", "/topics/a%20b", b"", 400, b"A topic name is"),
    ("PUT", "/topics/t", b"{", 400, b"invalid body; must be JSON"),
    ("PUT", "/topics/t", b"[]", 400, b"invalid body; must be a JSON object of settings"),
    ("PUT", "/topics/t", b'{"color":1}', 400, b"color is no setting; there are lease_seconds, "),
    ("PUT", "/topics/t", b'{"max_deliveries":true}', 400, b"max_deliveries must be a whole number from 0"),
    ("PUT", "/topics/t", b" " * (1 << 17), 400, b"body too large; must be at most 65536 bytes"),
    ("PATCH", "/topics/t", b"{}", 404, b"There is no such topic"),
    ("GET", "/topics/t", b"", 404, b"There is no such topic"),
    ("GET", "/topics/%ff", b"", 400, b"A topic name is"),
    ("POST", "/topics/t", b"", 405, b""),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "text"), REFUSED)
async def test_an_invalid_request_creates_no_topic(certificates, method, path, body, status, text):
    async with serving(certificates) as served:
        reply = await served.request(method, path, body)
        assert reply[0] == status
        assert text in reply[1]
        assert served.broker.topics() == []


async def test_a_topic_is_created_changed_inspected_and_deleted(certificates):
    async with serving(certificates) as served:

        async def settings() -> dict:
            status, body = await served.request("GET", "/topics/%C3%A4")
            assert status == 200
            assert orjson.loads(body)["topic"] == "ä"
            return orjson.loads(body)["settings"]

        assert await served.request("PUT", "/topics/%C3%A4", b"") == (201, b"")
        assert await settings() == DEFAULTS
        assert await served.request("PUT", "/topics/%C3%A4", b'{"max_deliveries":5}') == (200, b"")
        assert await served.request("PATCH", "/topics/%C3%A4", b'{"retry_delays":[1,2.5]}') == (200, b"")
        assert await settings() == DEFAULTS | {"max_deliveries": 5, "retry_delays": [1.0, 2.5]}
        assert await served.request("PATCH", "/topics/%C3%A4", b'{"retry_delays":null}') == (200, b"")
        assert await settings() == DEFAULTS | {"max_deliveries": 5}
        assert await served.request("DELETE", "/topics/%C3%A4") == (200, b"")
        assert served.broker.topics() == []


async def test_dead_letters_are_moved_back_over_http(certificates):
    async with serving(certificates) as served:
        assert (await served.request("POST", "/topics/t.dlq/redrive"))[0] == 404
        await served.request("PUT", "/topics/t", b'{"max_deliveries":1}')
        await served.request("POST", "/publish/t", b"a")
        consumer = FakeConsumer(served.broker, b"t")
        consumer.consumer.request()
        consumer.consumer.nack()
        await eventually(lambda: b"t.dlq" in served.broker.topics())
        assert (await served.request("POST", "/topics/t.dlq/redrive?rate=0"))[0] == 400
        assert (await served.request("POST", "/topics/t.dlq/redrive?limit=x"))[0] == 400
        reply = await served.request("POST", "/topics/t.dlq/redrive?limit=5&rate=100")
        assert reply == (200, b'{"moved":1,"remaining":0}')
        assert served.broker.stats()[b"t"].ready == 1
        await served.request("POST", "/publish/t.dlq", b"b")
        reply = await served.request("POST", "/topics/t.dlq/redrive?to=%C3%A4")
        assert reply == (200, b'{"moved":1,"remaining":0}')
        assert served.broker.stats()["ä".encode()].ready == 1


async def test_a_redrive_that_is_stopped_tells_over_http_what_was_moved_and_what_remains(certificates):
    async with serving(certificates) as served:
        await served.request("PUT", "/topics/t", b'{"max_messages":1}')
        for payload in (b"a", b"b", b"c"):
            await served.request("POST", "/publish/dead", payload)
        status, body = await served.request("POST", "/topics/dead/redrive?to=t")
        answer = json.loads(body)
        assert (status, answer["moved"], answer["remaining"]) == (507, 1, 2)
        assert "nothing more fits into t" in answer["error"]


async def test_a_redrive_ends_when_its_client_has_left(monkeypatch, world):
    await world.publish(b"dead", b"a", b"b", b"c")
    is_over, has_left = asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await is_over.wait()

    async def receive():
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    monkeypatch.setattr("miniqueue.broker.consume.redrive.sleep", sleep)
    path = "/topics/dead/redrive"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": []}
    asking = asyncio.create_task(HttpApp(world.broker)(scope | {"query_string": b"to=t&rate=1"}, receive, send))
    await settle_down()
    has_left.set()
    await settle_down()
    is_over.set()
    await asking
    assert world.broker.stats()[b"dead"].ready == 2
