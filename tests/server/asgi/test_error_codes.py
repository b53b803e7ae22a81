"""Every HTTP error has a stable code: of routes, of no route, of the server itself, on streams, over monitoring."""

import orjson
import pytest

from miniqueue.errors import MiniqueueError
from miniqueue.server.asgi.replies import error_reply
from miniqueue.server.granian.server import serve_https as serve_granian
from miniqueue.server.hypercorn.listening import serve_https as serve_hypercorn
from miniqueue.server.monitor.app import MonitorApp
from tests.fakes import FaultyStore, ManualClock, broker_on
from tests.meta.test_docs import error_classes
from tests.server.access import sign_in_for, user
from tests.serving import NDJSON, Lines, serving

BOTH_SERVERS = pytest.mark.parametrize("serve", [serve_hypercorn, serve_granian], ids=["hypercorn", "granian"])
EVIL = (b"origin", b"https://evil.example")
#: Method, path, header and body; status and code.
REFUSED = [
    ("GET", "/", (), b"", 404, "NOTFOUND"),
    ("POST", "/publish/a/b", (), b"x", 404, "NOTFOUND"),
    ("GET", "/publish/t", (), b"", 405, "METHODNOTALLOWED"),
    ("OPTIONS", "/topics", (), b"", 405, "METHODNOTALLOWED"),
    ("POST", "/publish/%ff", (), b"x", 400, "BADTOPIC"),
    ("POST", "/publish/t", (), b"x" * 11, 413, "TOOBIG"),
    ("POST", "/publish/t", (b"content-encoding", b"gzip"), b"x", 415, "BADENCODING"),
    ("POST", "/publish/t", EVIL, b"x", 403, "BADORIGIN"),
    ("GET", "/topics/t", (), b"", 404, "NOTOPIC"),
    ("POST", "/topics/t/receive?count=0", (), b"", 400, "BADPREFETCH"),
    ("POST", "/topics/t/receive?what=0", (), b"", 400, "ERR"),
]


@BOTH_SERVERS
async def test_every_refusal_of_the_queue_has_a_code(certificates, serve):
    async with serving(certificates, serve=serve, max_message_bytes=10) as served:
        for method, path, header, body, status, code in REFUSED:
            actual_status, answer = await served.request(method, path, body, *([header] if header else []))
            assert (actual_status, orjson.loads(answer)["code"]) == (status, code), path


@BOTH_SERVERS
async def test_authentication_errors_have_a_code(certificates, serve):
    async with serving(certificates, serve=serve, sign_in=sign_in_for(user("eve"))) as served:
        for headers, status, code in (
            ([], 401, "NOAUTH"),
            ([(b"authorization", b"Bearer wrong")], 401, "WRONGPASS"),
            ([(b"authorization", b"Bearer token of eve")], 403, "NOPERM"),
        ):
            actual_status, answer = await served.request("POST", "/publish/t", b"x", *headers)
            assert (actual_status, orjson.loads(answer)["code"]) == (status, code)


@BOTH_SERVERS
async def test_a_failure_of_the_application_has_a_code(certificates, serve):
    async def fail(scope, receive, send):
        if scope["type"] == "http":
            raise RuntimeError("out of cheese")

    async with serving(certificates, fail, serve=serve, may_fail=True) as served:
        status, answer = await served.request("POST", "/publish/t", b"x")
        assert (status, orjson.loads(answer)["code"]) == (500, "ERR")
        assert b"cheese" not in answer


async def test_head_of_what_is_refused_has_no_body(certificates):
    async with serving(certificates, serve=serve_granian) as served:
        for path in ("/", "/topics", "/publish/a/b"):
            assert (await served.request("HEAD", path))[1] == b""


@BOTH_SERVERS
async def test_lines_of_streams_have_a_code(certificates, serve):
    async with serving(certificates, serve=serve, max_message_bytes=10) as served:
        lines = Lines(await served.begin("/subscribe/t"))
        lines.say("ACK", "DACK soon", "what")
        assert [(await lines.hear())["code"] for _ in range(3)] == ["NOLEASE", "BADDELAY", "ERR"]
        _, answer = await served.request("POST", "/publish/t", b'what\n"aaaaaaaaaaa"\n', NDJSON)
        assert [orjson.loads(line)["code"] for line in answer.splitlines()] == ["BADLINE", "TOOBIG"]


@pytest.mark.parametrize(
    ("method", "path", "host", "status", "code"),
    [
        ("GET", "/nothing", b"localhost", 404, "NOTFOUND"),
        ("POST", "/metrics", b"localhost", 405, "METHODNOTALLOWED"),
        ("GET", "/metrics", b"evil.example", 403, "BADHOST"),
        ("GET", "/backup", b"evil.example", 403, "BADHOST"),
    ],
)
async def test_monitoring_has_the_same_codes(method, path, host, status, code):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [(b"host", host)]}
    await MonitorApp(broker_on(FaultyStore(), ManualClock()))(scope, None, send)
    assert (sent[0]["status"], orjson.loads(sent[1]["body"])["code"]) == (status, code)


@pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
async def test_the_code_over_http_is_the_word_of_resp(cls):
    """What begins the line over RESP; `resp` takes it from the same place."""
    error = cls.__new__(cls)
    MiniqueueError.__init__(error, "text")
    sent = []

    async def send(message):
        sent.append(message)

    await error_reply(error)({"type": "http"}, None, send)
    assert orjson.loads(sent[1]["body"]) == {"error": "text", "code": cls.code}
