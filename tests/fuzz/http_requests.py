"""HTTP requests, as a server hands them on: every one is answered, in order, and leaves nothing behind.

    POST /subscribe/t?prefetch=2 LF  name: value LF  LF  body

Documented: nothing leaves the application; the statuses are those of docs/protocol.md. A stream of JSON lines has whole
lines in it. Others on the broker go on.
"""

import asyncio
from random import Random
from urllib.parse import unquote

import orjson
from structlog.testing import capture_logs

from miniqueue.broker import Broker
from miniqueue.server.http.app import HttpApp
from miniqueue.storage.memory import MemoryStore
from tests.fakes import ManualClock, broker_on, settle_down
from tests.fuzz.engine import Target, chance_of
from tests.fuzz.pieces import cut, payload, some

STATUSES = {200, 201, 400, 403, 404, 405, 413, 415}
_PATHS = (
    b"/publish/t",
    b"/publish/t?key=k&ttl=1&dedup=1",
    b"/publish/t?delay=1&priority=low&unique=%ff",
    b"/subscribe/t",
    b"/subscribe/t?prefetch=2",
    b"/t",
    b"/publish/a%20b",
    b"/publish/",
    b"/",
    b"*",
)
_HEADERS = (
    *(
        b"content-type: application/x-ndjson",
        b"content-type: application/X-NDJSON; charset=utf-8",
        b"content-length: 3",
    ),
    *(b"content-encoding: gzip", b"origin: https://example.org", b"sec-fetch-site: none", b"authorization: Basic x"),
    *(b"miniqueue-header-a: b", b"miniqueue-header-: b"),
)
_COMMANDS = (
    *(b'"INIT"', b'"ACK"', b'"NACK"', b'"BACK"', b'"DACK 0"', b'"DACK 5"', b'"ACK 1"', b'"BACK 1 2"', b'"DACK 0 1"'),
    *(b'"DACK"', b'"DACK soon"', b'"DACK nan"', b'"ACK x"', b'"PING"'),
)
_TOKENS = (
    b"?prefetch=",
    b"?ttl=",
    b"&delay=",
    b"&dedup=",
    b"&",
    b"%ff",
    b"%",
    b"POST ",
    b"DELETE ",
    b"GET ",
    b"HEAD ",
    *_COMMANDS,
    *_HEADERS,
)


def _make(chance: Random) -> bytes:
    lines, commands = (
        some(chance, (b'"a"', b'{"msg":"AA=="}', b'{"msg":"","key":"k","headers":{"a":"b"}}', b"", b"x"), 3),
        some(chance, _COMMANDS, 6),
    )
    match chance.randrange(4):
        case 0:
            query = chance.choice((b"", b"", b"?key=k", b"?ttl=1&at=5", b"?delay=0.5&unique=1"))
            request, body = b"POST /publish/t" + query, chance.choice((payload(chance), b"\n".join(lines)))
        case 1 | 2:
            query = chance.choice((b"", b"?prefetch=2"))
            request, body = b"POST /subscribe/t" + query, b'"INIT" ' + b"".join(commands)
        case _:
            method = chance.choice((b"POST", b"DELETE", b"GET"))
            request, body = method + b" " + chance.choice(_PATHS), payload(chance)
    return b"\n".join([request, *some(chance, _HEADERS, 2)]) + b"\n\n" + body


def _check(content: bytes) -> None:
    head, _, body = content.partition(b"\n\n")
    request, *headers = head.split(b"\n")
    with capture_logs():
        asyncio.run(_serve(_scope(request, headers), cut(chance_of(content), body)))


def _scope(request: bytes, headers: list[bytes]) -> dict[str, object]:
    """Return what a server makes of a request; it takes no path that is not ASCII."""
    method, _, target = request.partition(b" ")
    path, _, query = target.partition(b"?")
    path = bytes(byte for byte in path if byte < 0x80)
    return {
        "type": "http",
        "method": method.decode("latin-1"),
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "headers": [
            (name.lower().strip(), value.strip()) for name, _, value in (line.partition(b":") for line in headers)
        ],
        "client": ("127.0.0.1", 1),
    }


async def _serve(scope: dict[str, object], pieces: list[bytes]) -> None:
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    broker = broker_on(MemoryStore(), ManualClock(), max_message_bytes=100)
    await broker.start()
    await broker.publish(b"t", [b"one", b"", b"three"]).commit.wait()
    start, *bodies = await ask(broker, scope, pieces)
    assert start["status"] in STATUSES
    for line in b"".join(message["body"] for message in bodies).splitlines() if start["status"] == 200 else ():
        assert isinstance(orjson.loads(line), dict)
    others = await ask(
        broker,
        scope
        | {
            **{"method": "POST", "path": "/publish/fresh", "raw_path": b"/publish/fresh"},
            **{"query_string": b"", "headers": []},
        },
        [b"x"],
    )
    assert others[0]["status"] == 201
    assert not any(topic.consumers for topic in broker.stats().values())
    await broker.stop()
    assert not faults, faults


async def ask(broker: Broker, scope: dict[str, object], pieces: list[bytes]) -> list[dict]:
    """Make a request; return what was sent as the answer, which is whole."""
    pending = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    pending.append({"type": "http.request", "body": b"", "more_body": False})
    sent: list[dict] = []

    async def receive() -> dict:
        await asyncio.sleep(0)
        return pending.pop(0) if pending else await asyncio.get_running_loop().create_future()

    async def send(message: dict) -> None:
        sent.append(message)

    await HttpApp(broker)(scope, receive, send)
    await settle_down()
    _check_answer(sent)
    return sent


def _check_answer(sent: list[dict]) -> None:
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert [message["type"] for message in bodies] == ["http.response.body"] * len(bodies)
    assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [False]


TARGET = Target("http_requests", _make, _check, tokens=_TOKENS, quick_inputs=200)
