"""What RFC 9113 asks of a server, case by case: what is sent, and the one answer that is documented for it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.server.apps import Endpoint, echo
from tests.server.hypercorn.hostile import on_both, victim
from tests.server.hypercorn.raw_http2 import PREFACE, RawHttp2

NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0, 1, 3, 5, 6
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11

pytestmark = on_both


@dataclass(frozen=True)
class Raw:
    """Bytes in place of a frame that hyperframe would not make."""

    data: bytes

    def serialize(self) -> bytes:
        return self.data


def raw(kind: int, stream_id: int, body: bytes = b"", flags: int = 0, length: int | None = None) -> Raw:
    size = len(body) if length is None else length
    return Raw(size.to_bytes(3, "big") + bytes([kind, flags]) + stream_id.to_bytes(4, "big") + body)


DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED = 0x1, 0x4, 0x8


def end(stream_id: int, data: bytes = b"") -> DataFrame:
    return DataFrame(stream_id, data=data, flags=["END_STREAM"])


Say = Callable[[RawHttp2], Iterable[Frame | Raw]]

#: The request is served: 200, and what it sent comes back.
SERVED: dict[str, tuple[Say, bytes]] = {
    "a request without a body": (lambda c: [c.request(1)], b""),
    "a request with a body": (lambda c: [c.post(1), end(1, b"body")], b"body"),
    "a body in many frames": (lambda c: [c.post(1), *[DataFrame(1, data=b"x")] * 50, end(1)], b"x" * 50),
    "a body of known length": (lambda c: [c.post(1, ("content-length", "4")), end(1, b"body")], b"body"),
    "DATA with padding": (
        lambda c: [c.post(1), DataFrame(1, data=b"body", pad_length=10, flags=["PADDED", "END_STREAM"])],
        b"body",
    ),
    "HEADERS with padding": (
        lambda c: [HeadersFrame(1, data=c.headers(), pad_length=5, flags=["PADDED", "END_HEADERS", "END_STREAM"])],
        b"",
    ),
    "HEADERS with a priority": (
        lambda c: [
            HeadersFrame(
                1, data=c.headers(), depends_on=0, stream_weight=5, flags=["PRIORITY", "END_HEADERS", "END_STREAM"]
            )
        ],
        b"",
    ),
    "headers in three frames": (
        lambda c: [
            HeadersFrame(1, data=(block := c.headers())[:5], flags=["END_STREAM"]),
            ContinuationFrame(1, data=block[5:9]),
            ContinuationFrame(1, data=block[9:], flags=["END_HEADERS"]),
        ],
        b"",
    ),
    "trailers": (
        lambda c: [
            c.post(1),
            DataFrame(1, data=b"body"),
            HeadersFrame(1, data=c.headers(("x", "y"), **NO_PSEUDO), flags=["END_HEADERS", "END_STREAM"]),
        ],
        b"body",
    ),
    "a frame of the largest size": (lambda c: [c.post(1), end(1, bytes(16_384))], bytes(16_384)),
    "a frame of an unknown type": (lambda c: [raw(0xFA, 1, b"?"), c.request(1)], b""),
    "a setting that is not known": (lambda c: [SettingsFrame(0, settings={0x5A5A: 1}), c.request(1)], b""),
    "a flag that is not known": (lambda c: [raw(PING, 0, bytes(8), flags=0xF0), c.request(1)], b""),
    "PRIORITY for a stream that is idle": (lambda c: [PriorityFrame(9, depends_on=1), c.request(1)], b""),
    "numbers of streams that were left out": (lambda c: [c.request(5), c.request(101), c.request(1001)], b""),
    "several Cookie fields": (lambda c: [c.request(1, ("cookie", "a=b"), ("cookie", "c=d"))], b""),
    "te: trailers": (lambda c: [c.request(1, ("te", "trailers"))], b""),
    "WINDOW_UPDATE for a stream that has ended": (
        lambda c: [c.request(1), c.request(3), WindowUpdateFrame(1, window_increment=1)],
        b"",
    ),
    "a bit of the stream's number that is reserved": (
        lambda c: [raw(HEADERS, 1 | 1 << 31, c.headers(), flags=END_STREAM | END_HEADERS)],
        b"",
    ),
}
NO_PSEUDO = dict.fromkeys(("method", "scheme", "path", "authority"))

#: The connection ends, with this code.
FATAL: dict[str, tuple[Say, int]] = {
    "DATA on stream 0": (lambda c: [raw(DATA, 0, b"x")], PROTOCOL_ERROR),
    "DATA on a stream that is idle": (lambda c: [end(1)], PROTOCOL_ERROR),
    "HEADERS on stream 0": (lambda c: [raw(HEADERS, 0, c.headers(), END_HEADERS)], PROTOCOL_ERROR),
    "HEADERS on a stream of the server's": (lambda c: [c.request(2)], PROTOCOL_ERROR),
    "a stream with a lower number than the last": (lambda c: [c.request(5), c.request(3)], PROTOCOL_ERROR),
    "a frame amid the headers": (
        lambda c: [HeadersFrame(1, data=c.headers()), PingFrame(0, opaque_data=bytes(8))],
        PROTOCOL_ERROR,
    ),
    "headers of another stream amid the headers": (
        lambda c: [HeadersFrame(1, data=c.headers()), ContinuationFrame(3, data=b"", flags=["END_HEADERS"])],
        PROTOCOL_ERROR,
    ),
    "CONTINUATION without HEADERS": (lambda c: [ContinuationFrame(1, data=b"")], PROTOCOL_ERROR),
    "headers that are no HPACK": (
        lambda c: [HeadersFrame(1, data=b"\xff\xff\xff\xff\xff", flags=["END_HEADERS"])],
        PROTOCOL_ERROR,
    ),
    "an index beyond the table": (lambda c: [HeadersFrame(1, data=b"\xfe", flags=["END_HEADERS"])], PROTOCOL_ERROR),
    "padding longer than the frame": (lambda c: [c.post(1), raw(DATA, 1, b"\xffx", PADDED)], PROTOCOL_ERROR),
    "a frame longer than allowed": (lambda c: [c.post(1), raw(DATA, 1, bytes(16_385))], FRAME_SIZE_ERROR),
    "SETTINGS on a stream": (lambda c: [raw(SETTINGS, 1)], PROTOCOL_ERROR),
    "SETTINGS of five bytes": (lambda c: [raw(SETTINGS, 0, bytes(5))], FRAME_SIZE_ERROR),
    "an acknowledgement with settings": (lambda c: [raw(SETTINGS, 0, bytes(6), flags=1)], PROTOCOL_ERROR),
    "ENABLE_PUSH of 2": (lambda c: [SettingsFrame(0, settings={2: 2})], PROTOCOL_ERROR),
    "a window beyond 2^31": (lambda c: [SettingsFrame(0, settings={4: 2**31})], FLOW_CONTROL_ERROR),
    "a largest frame below 2^14": (lambda c: [SettingsFrame(0, settings={5: 100})], PROTOCOL_ERROR),
    "a largest frame beyond 2^24": (lambda c: [SettingsFrame(0, settings={5: 2**24})], PROTOCOL_ERROR),
    "PING on a stream": (lambda c: [raw(PING, 1, bytes(8))], PROTOCOL_ERROR),
    "PING of seven bytes": (lambda c: [raw(PING, 0, bytes(7))], FRAME_SIZE_ERROR),
    "PRIORITY on stream 0": (lambda c: [raw(PRIORITY, 0, bytes(5))], PROTOCOL_ERROR),
    "PRIORITY of four bytes": (lambda c: [raw(PRIORITY, 1, bytes(4))], FRAME_SIZE_ERROR),
    "RST_STREAM on stream 0": (lambda c: [raw(RST_STREAM, 0, bytes(4))], PROTOCOL_ERROR),
    "RST_STREAM on a stream that is idle": (lambda c: [RstStreamFrame(1)], PROTOCOL_ERROR),
    "RST_STREAM of three bytes": (lambda c: [c.post(1), raw(RST_STREAM, 1, bytes(3))], FRAME_SIZE_ERROR),
    "GOAWAY on a stream": (lambda c: [raw(GOAWAY, 1, bytes(8))], PROTOCOL_ERROR),
    "a window of the connection that grows by 0": (lambda c: [raw(WINDOW_UPDATE, 0, bytes(4))], PROTOCOL_ERROR),
    "a window of the connection that grows too far": (
        lambda c: [WindowUpdateFrame(0, window_increment=2**31 - 1)],
        FLOW_CONTROL_ERROR,
    ),
    "WINDOW_UPDATE of three bytes": (lambda c: [raw(WINDOW_UPDATE, 0, bytes(3))], FRAME_SIZE_ERROR),
    "WINDOW_UPDATE on a stream that is idle": (
        lambda c: [WindowUpdateFrame(1, window_increment=1)],
        PROTOCOL_ERROR,
    ),
    "PUSH_PROMISE from a client": (
        lambda c: [PushPromiseFrame(1, promised_stream_id=2, data=c.headers(), flags=["END_HEADERS"])],
        PROTOCOL_ERROR,
    ),
    "no :path": (lambda c: [c.request(1, path=None)], PROTOCOL_ERROR),
    "an empty :path": (lambda c: [c.request(1, path="")], PROTOCOL_ERROR),
    "no :method": (lambda c: [c.request(1, method=None)], PROTOCOL_ERROR),
    "no :scheme": (lambda c: [c.request(1, scheme=None)], PROTOCOL_ERROR),
    "two :path": (lambda c: [c.request(1, (":path", "/"))], PROTOCOL_ERROR),
    "a pseudo-header that is not known": (lambda c: [c.request(1, (":other", "x"))], PROTOCOL_ERROR),
    "a pseudo-header of a response": (lambda c: [c.request(1, (":status", "200"))], PROTOCOL_ERROR),
    "a pseudo-header after a header": (lambda c: [c.request(1, ("x", "y"), (":path", "/"), path=None)], PROTOCOL_ERROR),
    "an uppercase letter in a header's name": (lambda c: [c.request(1, ("X-Upper", "y"))], PROTOCOL_ERROR),
    "an empty name": (lambda c: [c.request(1, ("", "y"))], PROTOCOL_ERROR),
    "CR in a value": (lambda c: [c.request(1, ("x", "a\rb"))], PROTOCOL_ERROR),
    "LF in a value": (lambda c: [c.request(1, ("x", "a\nb"))], PROTOCOL_ERROR),
    "NUL in a value": (lambda c: [c.request(1, ("x", "a\0b"))], PROTOCOL_ERROR),
    "white space around a value": (lambda c: [c.request(1, ("x", " y"))], PROTOCOL_ERROR),
    "connection: close": (lambda c: [c.request(1, ("connection", "close"))], PROTOCOL_ERROR),
    "transfer-encoding": (lambda c: [c.request(1, ("transfer-encoding", "chunked"))], PROTOCOL_ERROR),
    "te: gzip": (lambda c: [c.request(1, ("te", "gzip"))], PROTOCOL_ERROR),
    "another Host than :authority": (lambda c: [c.request(1, ("host", "other"))], PROTOCOL_ERROR),
    "a body longer than announced": (
        lambda c: [c.post(1, ("content-length", "3")), end(1, b"body")],
        PROTOCOL_ERROR,
    ),
    "a body shorter than announced": (
        lambda c: [c.post(1, ("content-length", "5")), end(1, b"body")],
        PROTOCOL_ERROR,
    ),
    "trailers with a pseudo-header": (
        lambda c: [c.post(1), HeadersFrame(1, data=c.headers(), flags=["END_HEADERS", "END_STREAM"])],
        PROTOCOL_ERROR,
    ),
    "headers amid the body": (
        lambda c: [c.post(1), HeadersFrame(1, data=c.headers(**NO_PSEUDO), flags=["END_HEADERS"])],
        PROTOCOL_ERROR,
    ),
    "more DATA than the window": (
        lambda c: [c.post(1, path="/unread"), *[DataFrame(1, data=bytes(16_384))] * 5],
        FLOW_CONTROL_ERROR,
    ),
}

#: The stream ends with this code; the connection goes on.
STREAM_ERRORS: dict[str, tuple[Say, int]] = {
    "CONNECT": (lambda c: [c.request(1, method="CONNECT", scheme=None, path=None)], PROTOCOL_ERROR),
    "a :path that is not ASCII": (lambda c: [c.request(1, path="/\N{SNOWMAN}")], PROTOCOL_ERROR),
    "a :method that is not ASCII": (lambda c: [c.request(1, method="\N{SNOWMAN}")], PROTOCOL_ERROR),
    "a window of a stream that grows too far": (
        lambda c: [c.post(1), WindowUpdateFrame(1, window_increment=2**31 - 1)],
        FLOW_CONTROL_ERROR,
    ),
    "DATA after the end of the stream": (lambda c: [c.post(1), end(1), end(1)], STREAM_CLOSED),
    "DATA after RST_STREAM": (lambda c: [c.post(1), RstStreamFrame(1), end(1)], STREAM_CLOSED),
}


@asynccontextmanager
async def conversing(certificates, is_tls, app=None, **options):
    async with (
        asyncio.timeout(60),
        victim(certificates, app or Endpoint(echo), is_tls=is_tls) as server,
        server.http2(**options) as client,
    ):
        yield client


@pytest.mark.parametrize("case", SERVED)
async def test_served(certificates, is_tls, case):
    say, body = SERVED[case]

    async with conversing(certificates, is_tls) as client:
        frames = list(say(client))
        client.send(*frames)
        stream_id = max(getattr(frame, "stream_id", 0) for frame in frames) or 1
        stream_id = 1 if case.startswith("PRIORITY") else stream_id
        assert await client.status(stream_id) == 200
        assert await client.body(stream_id) == body


@pytest.mark.parametrize("case", FATAL)
async def test_connection_ends(certificates, is_tls, case):
    say, code = FATAL[case]

    async with conversing(certificates, is_tls) as client:
        client.send(*say(client))
        assert await client.goodbye() == code


@pytest.mark.parametrize("case", STREAM_ERRORS)
async def test_stream_ends(certificates, is_tls, case):
    say, code = STREAM_ERRORS[case]

    async with conversing(certificates, is_tls) as client:
        client.send(*say(client))
        assert await client.reset_of(1) == code
        client.send(client.request(3))
        assert await client.status(3) == 200


async def test_settings_are_acknowledged(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(SettingsFrame(0, settings={4: 100}))
        await client.wait_for(lambda frame: isinstance(frame, SettingsFrame) and "ACK" in frame.flags)


async def test_ping_comes_back(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(PingFrame(0, opaque_data=b"12345678"))
        pong = await client.wait_for(lambda frame: isinstance(frame, PingFrame))
        assert (pong.opaque_data, set(pong.flags)) == (b"12345678", {"ACK"})


async def test_no_answer_to_an_answer(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(PingFrame(0, opaque_data=b"answered", flags=["ACK"]), PingFrame(0, opaque_data=b"question"))
        pong = await client.wait_for(lambda frame: isinstance(frame, PingFrame))
        assert pong.opaque_data == b"question"


async def test_reply_keeps_within_the_windows(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(SettingsFrame(0, settings={4: 10}), client.post(1), end(1, b"x" * 25))
        for size in (10, 10):
            await client.wait_for(lambda frame: isinstance(frame, DataFrame))
            assert sum(len(f.data) for f in client.frames if isinstance(f, DataFrame)) == size
            client.frames.clear()
            client.send(WindowUpdateFrame(1, window_increment=10))
        assert await client.body(1) == b"x" * 5


async def test_window_that_shrinks_below_nothing_is_respected(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(SettingsFrame(0, settings={4: 10}), client.post(1), end(1, b"x" * 25))
        await client.wait_for(lambda frame: isinstance(frame, DataFrame))
        client.frames.clear()
        client.send(SettingsFrame(0, settings={4: 0}), WindowUpdateFrame(1, window_increment=10))  # it is 0 now
        client.send(PingFrame(0, opaque_data=b"sent all"))
        await client.wait_for(lambda frame: isinstance(frame, PingFrame))
        assert not any(isinstance(frame, DataFrame) for frame in client.frames)
        client.send(WindowUpdateFrame(1, window_increment=100))
        assert await client.body(1) == b"x" * 15


async def test_frames_are_no_longer_than_the_client_takes(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(client.post(1), end(1, bytes(16_384)))
        assert len(await client.body(1)) == 16_384
        assert max(len(f.data) for f in client.frames if isinstance(f, DataFrame)) <= 16_384


async def test_head_has_headers_alone(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(client.request(1, method="HEAD", path="/healthz"))
        assert await client.status(1) == 200
        assert await client.body(1) == b""


async def test_goodbye_of_the_client_lets_requests_end(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(client.request(1))
        assert await client.status(1) == 200
        client.send(GoAwayFrame(0))
        await client.peer.until_over()


async def test_requests_in_front_of_a_goodbye_are_answered(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(client.post(1), end(1, b"x"), client.request(3), client.post(5), GoAwayFrame(0))
        assert await client.body(1) == b"x"
        assert await client.status(3) == 200
        client.send(end(5, b"y"))
        assert await client.body(5) == b"y"
        await client.peer.until_over()


async def test_a_goodbye_with_an_error_ends_the_connection(certificates, is_tls):
    async with conversing(certificates, is_tls) as client:
        client.send(client.post(1), GoAwayFrame(0, error_code=PROTOCOL_ERROR))
        await client.peer.until_over()


async def test_nothing_but_http2_after_its_beginning(certificates, is_tls):
    async with conversing(certificates, is_tls, begins=False) as client:
        client.peer.write(PREFACE[:16] + b"XX\r\n\r\n" + bytes(100))
        assert await client.peer.until_over() is not None
