"""Receiving and settling over HTTP, on both servers."""

import asyncio
import base64
from contextlib import asynccontextmanager
from urllib.parse import quote

import orjson
import pytest

from miniqueue.server.granian.server import serve_https as serve_granian
from miniqueue.server.http.app import HttpApp
from miniqueue.server.hypercorn.listening import serve_https as serve_hypercorn
from tests.fakes import START_MS, settle_down
from tests.serving import eventually, serving

REFUSED = "NOLEASE the receipt belongs to no message that is leased now"


@pytest.fixture(params=[serve_hypercorn, serve_granian], ids=["hypercorn", "granian"])
def serve(request):
    if request.param is serve_granian:
        pytest.importorskip("granian")
    return request.param


async def receive(served, query: str = "", topic: str = "t") -> list[dict[str, object]]:
    status, body = await served.request("POST", f"/topics/{quote(topic, safe='')}/receive?{query}")
    assert status == 200
    return [orjson.loads(line) for line in body.splitlines()]


async def settle(served, act: str, *receipts: object, **members: object) -> object:
    body = orjson.dumps({"receipts": receipts, **members})
    status, answer = await served.request("POST", f"/topics/t/{act}", body)
    assert status == 200
    return orjson.loads(answer)


async def publish(served, *payloads: bytes, topic: bytes = b"t") -> None:
    await served.broker.publish(topic, list(payloads)).commit.wait()


@asynccontextmanager
async def served_by(certificates, serve):
    async with serving(certificates, serve=serve) as served:
        yield served


async def test_messages_are_received_and_settled(certificates, serve):
    async with served_by(certificates, serve) as served:
        await publish(served, b"a", b"", b"\x00\xff", b"d", b"e")
        messages = await receive(served, "count=10")
        receipts = [message.pop("receipt") for message in messages]
        assert [base64.b64decode(message.pop("msg")) for message in messages] == [b"a", b"", b"\x00\xff", b"d", b"e"]
        known = {"publishedAtMs": START_MS, "deliveries": 1}
        assert messages == [{"id": f"0-{n}"} | known for n in range(5)]
        a, b, c, d, e = receipts
        assert await settle(served, "ack", a, "what", a) == ["OK", REFUSED, REFUSED]
        assert await settle(served, "nack", b) == ["OK"]
        assert await settle(served, "dack", c, delaySeconds=1.5) == ["OK"]
        assert await settle(served, "reject", d, reason="broken") == ["OK"]
        assert await settle(served, "extend", e, leaseSeconds=60) == ["OK"]
        assert await settle(served, "back", e) == ["OK"]
        served.clock.advance(2)
        served.broker.tick()
        again = await receive(served, "count=10")
        assert [(message["id"], message["deliveries"]) for message in again] == [("0-1", 2), ("0-2", 2), ("0-4", 2)]
        assert [set(message) & {"nacks", "dacks", "backs"} for message in again] == [{"nacks"}, {"dacks"}, {"backs"}]


async def test_a_name_is_taken_from_the_path_and_autoack_needs_no_receipt(certificates, serve):
    async with served_by(certificates, serve) as served:
        await publish(served, b"a", topic="käse".encode())
        (message,) = await receive(served, "autoack=true&group=default", topic="käse")
        assert message["receipt"] == ""
        assert served.broker.stats()["käse".encode()].acknowledged == 1
        assert await receive(served, topic="käse") == []


async def test_a_waiting_request_is_answered_with_the_first_message(certificates, serve):
    async with served_by(certificates, serve) as served:
        asking = asyncio.create_task(receive(served, "wait=60&count=5"))
        await eventually(lambda: b"t" in served.broker.stats())
        await publish(served, b"a", b"b")
        assert [message["id"] for message in await asking] == ["0-0", "0-1"]
        assert await receive(served, "wait=0.01") == []


async def test_a_client_that_disconnects_while_it_waits_loses_no_message(certificates, serve):
    async with served_by(certificates, serve) as served:
        for _ in range(2):
            stream = await served.begin("/topics/t/receive?wait=60")
            stream.write(b"", is_last=True)
            await eventually(lambda: b"t" in served.broker.stats())
            served.clients[-1].close()
            await eventually(lambda: b"t" not in served.broker.stats())
        await publish(served, b"a")
        assert served.broker.stats()[b"t"].ready == 1


async def test_at_shutdown_waiting_requests_are_answered_and_others_are_refused(certificates, serve):
    async with served_by(certificates, serve) as served:
        asking = asyncio.create_task(receive(served, "wait=60"))
        await eventually(lambda: b"t" in served.broker.stats())
        served.app.drain()
        assert await asking == []
        status, text = await served.request("POST", "/topics/t/receive")
        assert (status, orjson.loads(text)) == (503, {"error": "The broker is shutting down", "code": "DRAINING"})


BAD = {
    "/topics/t/receive?grup=audit": (b"", "invalid parameters; must be among group, member, count"),
    "/topics/t/receive?count=1&count=2": (b"", "invalid parameters; must be among group, member, count"),
    "/topics/t/receive?count=10001": (b"", "A prefetch is a whole number from 1 to 10000"),
    "/topics/t/receive?wait=inf": (b"", "a wait is a number of seconds, or a duration such as 1h30m, from 0 to 60"),
    "/topics/t/receive?autoack=maybe": (b"", "autoack is true or false"),
    "/topics/a%20b/receive": (b"", "A topic name is"),
    "/topics/a%20b/ack": (b'{"receipts":["x"]}', "A topic name is"),
    "/topics/t/ack": (b"{", "invalid body; must be JSON"),
    "/topics/t/nack": (b'{"receipts":"x"}', 'invalid body; must be a JSON object with "receipts", an array of strings'),
    "/topics/t/back": (b'{"receipts":[]}', 'invalid number of "receipts": 0; must be 1 to 10000'),
    "/topics/t/dack": (b'{"receipts":["x"]}', 'invalid "delaySeconds"; must be a number of seconds'),
    "/topics/t/dack?": (
        b'{"receipts":["x"],"delaySeconds":-1}',
        "A delay is a number of seconds, or a duration such as 1h30m, 0 or more",
    ),
    "/topics/t/extend": (
        b'{"receipts":["x"],"leaseSeconds":true}',
        'invalid "leaseSeconds"; must be a number of seconds',
    ),
    "/topics/t/extend?": (b'{"receipts":["x"],"leaseSeconds":43201}', "a lease is a number of seconds"),
    "/topics/t/reject": (b'{"receipts":["x"],"reason":1}', 'invalid "reason"; must be a string'),
    "/topics/t/reject?": (b'{"receipts":["x"],"reason":"%b"}' % (b"x" * 1025), "a reason has at most 1024 bytes"),
    "/topics/t/ack?": (b" " * (2 << 20) + b"{}", "body too large; must be at most 2097152 bytes"),
}


async def test_invalid_requests_are_refused(certificates):
    async with served_by(certificates, serve_hypercorn) as served:
        for path, (content, text) in BAD.items():
            status, answer = await served.request("POST", path, content)
            assert (status, orjson.loads(answer)["error"][: len(text)]) == (400, text)
        assert served.broker.stats() == {}
        assert (await served.request("GET", "/topics/t/receive"))[0] == 405


@pytest.mark.parametrize("is_message_there", [True, False])
async def test_a_request_that_the_server_cancels_while_it_waits_does_no_harm(is_message_there, world):
    """A message may be delivered to it before it notices; that must not end the commits of all clients."""
    request = asyncio.create_task(HttpApp(world.broker)(receive_scope("t"), never, never))
    await settle_down()
    if is_message_there:
        world.broker.publish(b"t", [b"x"]).commit.add_listener(request.cancel)
    else:
        request.cancel()
    await settle_down()
    assert request.cancelled()
    assert not world.broker.failed.done()
    await world.publish(b"t", b"y")


def receive_scope(topic: str) -> dict[str, object]:
    path = f"/topics/{topic}/receive"
    line = {"method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"wait=20"}
    return {"type": "http", "headers": [], **line}


async def never(*_: object) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("leave", ["cancel", "disconnect"])
async def test_a_client_that_disconnects_when_a_message_comes_loses_no_message(leave, world):
    has_left = asyncio.Event()

    async def hear():
        await has_left.wait()
        return {"type": "http.disconnect"}

    request = asyncio.create_task(HttpApp(world.broker)(receive_scope("t"), hear, never))
    await settle_down()
    commit = world.broker.publish(b"t", [b"x"]).commit
    commit.add_listener(request.cancel if leave == "cancel" else has_left.set)
    await settle_down()
    assert request.done()
    assert world.broker.stats()[b"t"].ready == 1
