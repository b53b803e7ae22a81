"""Slow clients, with TLS and without. The clock is advanced, so that no test waits."""

import asyncio

import pytest
from hyperframe.frame import (
    DataFrame,
    HeadersFrame,
    PingFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from miniqueue.server.hypercorn.limits import (
    BODY_BYTES_PER_SECOND,
    BODY_SECONDS,
    BODY_STALL_SECONDS,
    HEADERS_SECONDS,
    STALL_SECONDS,
    WRITE_SECONDS,
    BodyDeadline,
    Stillness,
)
from miniqueue.server.hypercorn.listening import KEEP_ALIVE_SECONDS, TLS_HANDSHAKE_SECONDS
from tests.loops import on_loop
from tests.server.apps import Endpoint, Source, echo, never_answer
from tests.server.hypercorn.hostile import ONE_LOOK_SECONDS, LeapingLoop, leap, on_both, publish, run_leaping, victim
from tests.server.hypercorn.raw_http2 import PREFACE, connect_raw
from tests.serving import eventually

ENHANCE_YOUR_CALM, CANCEL = 11, 8
ENOUGH_SECONDS = 2 * ONE_LOOK_SECONDS


async def settle(client) -> None:
    """Return when the server has taken all that was sent."""
    client.send(PingFrame(0, opaque_data=b"are you."))
    seen = sum(isinstance(frame, PingFrame) for frame in client.frames)
    await client.wait_for(lambda _: sum(isinstance(frame, PingFrame) for frame in client.frames) > seen)


def test_stillness_is_the_time_since_the_last_change():
    stillness = Stillness()
    marks = [(1, 5), (1, 6), (1, 8), (2, 9), (2, 10), (None, 11), (None, 15), (2, 20)]
    assert [stillness.age(mark, now) for mark, now in marks] == [0, 1, 3, 0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("received_bytes_per_second", "over_after_seconds"),
    [(0, BODY_STALL_SECONDS), (1, BODY_SECONDS + 1), (BODY_BYTES_PER_SECOND, None), (BODY_BYTES_PER_SECOND // 2, 60)],
)
def test_body_must_go_on_and_come_to_an_end(received_bytes_per_second, over_after_seconds):
    deadline = BodyDeadline()
    over = (now for now in range(1000) if deadline.is_over(now * received_bytes_per_second, 0, now))
    assert next(over, None) == over_after_seconds


def test_body_that_the_application_does_not_read_is_never_late():
    deadline = BodyDeadline()
    assert not any(deadline.is_over(100, 100, now) for now in range(1000))


@on_both
@on_loop(LeapingLoop)
async def test_connection_that_says_nothing_is_closed(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server:
        peer = await server.raw("h2")
        await leap(KEEP_ALIVE_SECONDS - 5)
        assert not peer.is_over
        await leap(6)
        await peer.until_over()


@on_both
@on_loop(LeapingLoop)
async def test_connection_without_requests_is_closed_whatever_it_asks(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        await settle(client)
        for _ in range(round(KEEP_ALIVE_SECONDS / 5)):
            await leap(5)
            client.send(PingFrame(0, opaque_data=bytes(8)))
        await leap(5)
        await client.peer.until_over()


@on_both
@on_loop(LeapingLoop)
async def test_a_shorter_time_without_requests_can_be_set(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls, limits={"idle_seconds": 20}) as server:
        peer = await server.raw("h2")
        await leap(15)
        assert not peer.is_over
        await leap(6)
        await peer.until_over()


@on_both
@on_loop(LeapingLoop)
async def test_connection_whose_requests_were_answered_is_closed(certificates, is_tls):
    async with victim(certificates, Endpoint(echo), is_tls=is_tls) as server, server.http2() as client:
        client.send(client.request(1))
        await client.body(1)
        await leap(KEEP_ALIVE_SECONDS + 2)
        await client.peer.until_over()


@on_both
@on_loop(LeapingLoop)
async def test_connection_is_idle_anew_after_each_request(certificates, is_tls):
    async with victim(certificates, Endpoint(echo), is_tls=is_tls) as server, server.http2() as client:
        for stream_id in (1, 3, 5):
            client.send(client.request(stream_id))
            await client.body(stream_id)
            await leap(KEEP_ALIVE_SECONDS - 5)
            assert not client.peer.is_over


BEGINNINGS = {
    "a part of a frame's head": lambda client: client.peer.write(b"\0\0"),
    "a part of a frame": lambda client: client.peer.write(bytes([0, 0, 8, 6, 0, 0, 0, 0, 0, 1])),
    "HEADERS without their end": lambda client: client.send(HeadersFrame(1, data=client.headers())),
}


@on_both
@pytest.mark.parametrize("name", BEGINNINGS)
@on_loop(LeapingLoop)
async def test_headers_and_frames_must_end(certificates, is_tls, name):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        await settle(client)
        BEGINNINGS[name](client)
        await leap(HEADERS_SECONDS - 2)
        assert not client.peer.is_over
        await leap(5)
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("slow_headers") == 1


@on_both
@on_loop(LeapingLoop)
async def test_headers_that_go_on_bit_by_bit_must_end(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        await settle(client)
        client.send(HeadersFrame(1, data=client.headers()))
        for _ in range(6):
            client.peer.write(b"\0")
            await leap(2)
        assert await client.goodbye() == ENHANCE_YOUR_CALM


@on_both
@on_loop(LeapingLoop)
async def test_half_of_the_beginning_is_closed(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server:
        peer = await server.raw("h2")
        peer.write(PREFACE[:10])
        await leap(HEADERS_SECONDS + 3)
        await peer.until_over()


@on_both
@on_loop(LeapingLoop)
async def test_http1_headers_that_come_bit_by_bit_are_answered_408(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server:
        peer = await server.raw()
        peer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(7):
            peer.write(b"X: y\r\n")
            await leap(2)
        reply = await peer.until_over()
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b'"code":"TIMEOUT"' in reply
        assert server.refused("slow_headers") == 1


@on_both
@pytest.mark.parametrize("pace", ["nothing more", "bit by bit"])
@on_loop(LeapingLoop)
async def test_body_that_does_not_come_is_answered_408_and_the_connection_goes_on(certificates, is_tls, pace):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(client.post(1, path="/publish/t"), DataFrame(1, data=b"begun"))
        await settle(client)
        if pace == "bit by bit":
            for _ in range(8):
                client.send(DataFrame(1, data=b"x"))
                await leap(4)
        else:
            await leap(BODY_STALL_SECONDS + ENOUGH_SECONDS)
        assert await client.status(1) == 408
        assert client.header(1, b"content-type") == b"application/problem+json"
        assert await client.body(1) == (
            b'{"type":"about:blank","title":"Request Timeout","status":408,"code":"TIMEOUT"}'
        )
        assert await client.reset_of(1) == 0
        assert await publish(client, 3) == 201
        assert server.refused("slow_body") == 1
        assert server.served.broker.stats()[b"t"].published == 1


@on_both
@on_loop(LeapingLoop)
async def test_http1_body_that_does_not_come_is_answered_408(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server:
        peer = await server.raw()
        peer.write(b"POST /publish/t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nbegun")
        await asyncio.sleep(0.01)
        await leap(BODY_STALL_SECONDS + ENOUGH_SECONDS)
        reply = await peer.until_over()
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"\r\n\r\n{" in reply
        assert server.refused("slow_body") == 1


@on_both
@on_loop(LeapingLoop)
async def test_large_body_may_take_longer(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(client.post(1, path="/publish/t"))
        for _ in range(50):
            client.send(DataFrame(1, data=bytes(16_384)))
            await settle(client)
            await leap(1)
        client.send(DataFrame(1, flags=["END_STREAM"]))
        assert await client.status(1) == 201


@on_both
@on_loop(LeapingLoop)
async def test_consumer_that_is_silent_for_hours_stays(certificates, is_tls):
    async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(client.post(1, path="/subscribe/t"), DataFrame(1, data=b'"INIT"'))
        assert await client.status(1) == 200
        await leap(3600)
        client.send(client.post(3, path="/publish/t"), DataFrame(3, data=b"x", flags=["END_STREAM"]))
        await client.wait_for(lambda frame: isinstance(frame, DataFrame) and b'"msg"' in frame.data)


@on_both
@on_loop(LeapingLoop)
async def test_request_that_the_application_answers_late_stays(certificates, is_tls):
    may_answer = asyncio.Event()

    async def answer_when_told(scope, receive, send):
        await may_answer.wait()
        await echo(scope, receive, send)

    async with victim(certificates, Endpoint(answer_when_told), is_tls=is_tls) as server, server.http2() as client:
        client.send(client.post(1), DataFrame(1, data=b"x"))
        await settle(client)
        await leap(300)
        client.send(DataFrame(1, data=b"y", flags=["END_STREAM"]))
        may_answer.set()
        assert await client.body(1) == b"xy"


@on_both
@on_loop(LeapingLoop)
async def test_reply_that_is_not_taken_is_reset_and_the_connection_goes_on(certificates, is_tls):
    app = Source()
    settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
    async with victim(certificates, app, is_tls=is_tls) as server, server.http2(settings) as client:
        client.send(client.request(1))
        assert await client.status(1) == 200
        await leap(STALL_SECONDS - 5)
        assert app.inside == 1
        await leap(5 + ENOUGH_SECONDS)
        assert await client.reset_of(1) == CANCEL
        await eventually(lambda: app.inside == 0)
        client.send(client.request(3))
        assert await client.status(3) == 200
        assert server.refused("slow_reader") == 1


@on_both
@on_loop(LeapingLoop)
async def test_reply_that_is_taken_slowly_is_not_reset(certificates, is_tls):
    settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 1}
    async with victim(certificates, Source(), is_tls=is_tls) as server, server.http2(settings) as client:
        client.send(client.request(1))
        for _ in range(10):
            client.send(WindowUpdateFrame(1, window_increment=1))
            await settle(client)
            await leap(STALL_SECONDS / 2)
        assert server.refused("slow_reader") == 0


@on_both
@on_loop(LeapingLoop)
async def test_time_for_a_reply_to_be_taken_can_be_set(certificates, is_tls):
    settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
    async with (
        victim(certificates, Source(), is_tls=is_tls, stall_seconds=5) as server,
        server.http2(settings) as client,
    ):
        client.send(client.request(1))
        assert await client.status(1) == 200
        await leap(5 + ENOUGH_SECONDS)
        assert await client.reset_of(1) == CANCEL


@on_both
@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_connection_that_is_not_read_is_cut(certificates, is_tls, protocol):
    async def scenario():
        app = Source()
        async with victim(certificates, app, is_tls=is_tls, stall_seconds=1e9) as server:
            if protocol == "h2":
                async with server.http2({SettingsFrame.INITIAL_WINDOW_SIZE: 2**31 - 1}) as client:
                    client.send(WindowUpdateFrame(0, window_increment=2**30), client.request(1))
                    await cut_off(server, app, client.peer)
            else:
                peer = await server.raw()
                peer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await cut_off(server, app, peer)

    async def cut_off(server, app, peer):
        await eventually(lambda: app.inside == 1)
        peer.transport.pause_reading()
        while server.refused("slow_connection") == 0:  # when the buffers between both are full
            await asyncio.sleep(0.01)
            await leap(WRITE_SECONDS + ENOUGH_SECONDS)
        assert server.refused("slow_connection") == 1
        await eventually(lambda: app.inside == 0)

    run_leaping(scenario)


@on_both
@on_loop(LeapingLoop)
async def test_tokens_come_back_with_time(certificates, is_tls):
    ping = PingFrame(0, opaque_data=bytes(8))
    async with victim(certificates, Endpoint(never_answer), is_tls=is_tls) as server, server.http2() as client:
        client.send(client.request(1))
        for _ in range(5):
            client.send(*[ping] * 800)
            await settle(client)
            await leap(30)
        assert server.refused("flood") == 0


@on_loop(LeapingLoop)
async def test_tls_that_is_never_agreed_on_is_closed(certificates):
    async with victim(certificates, is_tls=True) as server:
        peer = await connect_raw(server.served.port, None)
        server.peers.append(peer)
        peer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        await asyncio.sleep(0.01)
        await leap(TLS_HANDSHAKE_SECONDS + ENOUGH_SECONDS)
        await peer.until_over()
