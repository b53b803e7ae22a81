"""What one HTTP/1.1 client can send, and what it gets for it; on TLS as well as without."""

import asyncio

import pytest

from miniqueue.server.asgi.replies import CODES
from tests.server.apps import Endpoint, echo
from tests.server.hypercorn.hostile import on_both, victim

pytestmark = on_both

HOST = b"Host: localhost\r\n"
END = b"Connection: close\r\n\r\n"


def post(*headers: bytes, target: bytes = b"/", body: bytes = b"") -> bytes:
    return b"POST " + target + b" HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in headers) + END + body


def answers(certificates, is_tls, data: bytes, app=None):
    """Return what the server says to `data` before it closes the connection, and what it counts."""

    async def scenario():
        async with victim(certificates, app or Endpoint(echo), is_tls=is_tls) as server:
            said = await asyncio.wait_for(server.say(data), 60)
            return said, dict(server.refusals.counts)

    return asyncio.run(scenario())


SERVED = {
    "a body with a length": (post(b"Content-Length: 4", body=b"body"), b"body"),
    "a body in chunks": (post(b"Transfer-Encoding: chunked", body=b"4\r\nbody\r\n0\r\n\r\n"), b"body"),
    "a body in chunks with extensions": (
        post(b"Transfer-Encoding: chunked", body=b"4;a=b\r\nbody\r\n0;c\r\n\r\n"),
        b"body",
    ),
    "no body": (post(), b""),
    "two requests at once": (b"POST / HTTP/1.1\r\n" + HOST + b"\r\n" + post(b"Content-Length: 2", body=b"ab"), b"ab"),
    "an upgrade to HTTP/2, which is ignored": (
        post(b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"),
        b"",
    ),
}


@pytest.mark.parametrize("name", SERVED)
def test_served(certificates, is_tls, name):
    data, body = SERVED[name]
    said, refused = answers(certificates, is_tls, data)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(b"\r\n\r\n" + body)
    assert b" 101 " not in said
    assert refused == {}


REFUSED = {
    "both ways to tell the length": (400, post(b"Content-Length: 4", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n")),
    "two lengths": (400, post(b"Content-Length: 4", b"Content-Length: 5", body=b"body")),
    "a length with a sign": (400, post(b"Content-Length: +5", body=b"12345")),
    "a length below nothing": (400, post(b"Content-Length: -5")),
    "another way to tell the length": (501, post(b"Transfer-Encoding: xchunked")),
    "a trailer": (400, post(b"Transfer-Encoding: chunked", body=b"4\r\nbody\r\n0\r\nX: y\r\n\r\n")),
    "a folded trailer": (400, post(b"Transfer-Encoding: chunked", body=b"0\r\nX: y\r\n z\r\n\r\n")),
    "CR in a chunk extension": (400, post(b"Transfer-Encoding: chunked", body=b"4;a\rb\r\nbody\r\n0\r\n\r\n")),
    "a long chunk extension": (400, post(b"Transfer-Encoding: chunked", body=b"4;" + b"a" * 300)),
    "a size of 17 digits": (400, post(b"Transfer-Encoding: chunked", body=b"0" * 16 + b"4\r\n")),
    "CONNECT": (400, b"CONNECT localhost:443 HTTP/1.1\r\n" + HOST + END),
    "another version": (400, b"GET / HTTP/1.7\r\n" + HOST + END),
    "chunks in HTTP/1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "no Host": (400, b"GET / HTTP/1.1\r\n" + END),
    "two Hosts": (400, post(b"Host: other")),
    "NUL in a value": (400, post(b"X: a\0b")),
    "CR in a value": (400, post(b"X: a\rb")),
    "a space before the colon": (400, post(b"X : y")),
    "a target that is not ASCII": (400, post(target=b"/\xff")),
    "LF alone": (400, b"GET / HTTP/1.1\nHost: localhost\n\n"),
    "LF alone amid the headers": (400, b"GET / HTTP/1.1\r\nX: y\nHost: localhost\r\n" + END),
    "a folded header": (400, post(b"X: a", b" b")),
    "a header folded with a tab": (400, post(b"X: a", b"\tb")),
    "no HTTP at all": (400, b"\x16\x03\x01\x02\x00 hello \r\n\r\n"),
    "a large header": (431, post(b"X: " + b"y" * 20_000)),
    "a long target": (431, post(target=b"/" + b"x" * 20_000)),
    "many headers": (431, post(*[b"X: y"] * 200)),
    "headers without an end": (431, b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyyyyyy\r\n" * 2000),
    "a folded header in the second request": (
        400,
        b"POST / HTTP/1.1\r\n" + HOST + b"\r\n" + post(b"X: a", b" b"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(certificates, is_tls, name):
    status, data = REFUSED[name]
    said, refused = answers(certificates, is_tls, data)
    last = said[said.rindex(b"HTTP/1.1 ") :]
    head, _, body = last.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-type: application/problem+json" in head.lower()
    assert b"content-length: %d" % len(body) in head.lower()
    assert b'"status":%d' % status in body
    assert b'"code":"%b"' % CODES[status].encode() in body
    assert sum(refused.values()) == 1


async def test_websocket_is_refused(certificates, is_tls):
    handshake = [b"Upgrade: websocket", b"Sec-WebSocket-Key: " + b"A" * 22 + b"==", b"Sec-WebSocket-Version: 13"]
    request = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\n" + b"\r\n".join(handshake) + b"\r\n\r\n"

    async with victim(certificates, is_tls=is_tls) as server:
        said = await asyncio.wait_for(server.say(request), 60)
        assert said.startswith(b"HTTP/1.1 403 ")
        assert said.endswith(b'"code":"NOWEBSOCKET"}')


async def test_other_connections_go_on(certificates, is_tls):
    async with victim(certificates, Endpoint(echo), is_tls=is_tls) as server:
        peer = await server.raw()
        await server.say(b"nonsense\r\n\r\n")
        peer.write(post(b"Content-Length: 2", body=b"ab"))
        assert (await peer.until_over()).endswith(b"ab")
