"""What one HTTP/2 client can do to the server, and what it gets for it; on TLS as well as without.

One test for each fault of Hypercorn as it was measured; most of them hang, leak or grow without the guard.
"""

import asyncio
from contextlib import asynccontextmanager
from itertools import chain

import orjson
import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.server.asgi.replies import PIECE_BYTES, Reply
from miniqueue.server.hypercorn import http2, listening
from miniqueue.server.hypercorn.frames import (
    BURST,
    LATE_DATA_PER_RESET,
    WINDOW_UPDATES_PER_DATA_FRAME,
    CountedConnection,
)
from tests.fakes import settle_down
from tests.loops import CalmLoop, on_loop
from tests.server.apps import Endpoint, Source, answer_early, echo, never_answer, stay_whatever_happens
from tests.server.hypercorn.hostile import on_both, publish, victim
from tests.serving import eventually

ENHANCE_YOUR_CALM = 11
FRAME_SIZE_ERROR = 6
REFUSED_STREAM = 7
PROTOCOL_ERROR = 1
INTERNAL_ERROR = 2
MAX_STREAMS = 100
#: Over the budget, and little enough to arrive in one read, so that no byte is unread when the connection ends.
TOO_MANY = BURST + 100
MUCH_BYTES = 1 << 20
LITTLE_BYTES = 40 << 10

pytestmark = on_both


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Wasteful clients wait for some time after each turn, which takes long under a tracer; here they need not."""
    monkeypatch.setattr(http2, "WAIT_FACTOR", 0)


def odd(count: int) -> range:
    """Return the numbers of a client's first streams."""
    return range(1, 2 * count, 2)


async def answer_much(scope, receive, send):
    await Reply(200, bytes(MUCH_BYTES))(scope, receive, send)


async def answer_little(scope, receive, send):
    await Reply(200, bytes(LITTLE_BYTES))(scope, receive, send)


@asynccontextmanager
async def limited():
    async with asyncio.timeout(60):
        yield


@on_loop(CalmLoop)
async def test_settings_tell_what_holds(certificates, is_tls):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        frame = await client.wait_for(lambda frame: isinstance(frame, SettingsFrame))
        wanted = {
            SettingsFrame.ENABLE_PUSH: 0,
            SettingsFrame.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            SettingsFrame.MAX_HEADER_LIST_SIZE: 8192,
            SettingsFrame.MAX_FRAME_SIZE: 16_384,
            SettingsFrame.INITIAL_WINDOW_SIZE: 65_535,
            SettingsFrame.ENABLE_CONNECT_PROTOCOL: 0,
        }
        assert {name: frame.settings[name] for name in wanted} == wanted


FLOODS = {
    "PING": [PingFrame(0, opaque_data=bytes(8))],
    "PING acknowledged": [PingFrame(0, opaque_data=bytes(8), flags=["ACK"])],
    "SETTINGS": [SettingsFrame(0)],
    "SETTINGS acknowledged": [SettingsFrame(0, flags=["ACK"])],
    "PRIORITY": [PriorityFrame(1, depends_on=3, stream_weight=1)],
    "unknown": [ExtensionFrame(0xFA, 0, body=b"")],
    "WINDOW_UPDATE": [WindowUpdateFrame(0, window_increment=1)],
    "WINDOW_UPDATE of a stream": [WindowUpdateFrame(1, window_increment=1)],
    "empty DATA": [DataFrame(1)],
    "DATA that is nothing but padding": [DataFrame(1, pad_length=1, flags=["PADDED"])],
    "RST_STREAM": [RstStreamFrame(1)],
}


@pytest.mark.parametrize("name", FLOODS)
@on_loop(CalmLoop)
async def test_flood_of_frames_that_serve_no_request_ends_the_connection(certificates, is_tls, name):
    async with (
        limited(),
        victim(certificates, Endpoint(never_answer), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(client.post(1))
        client.send(*FLOODS[name] * TOO_MANY)
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("flood") == 1
        await eventually(lambda: server.app.inside == 0)


@pytest.mark.parametrize("name", FLOODS)
@on_loop(CalmLoop)
async def test_as_many_of_them_as_are_allowed_do_no_harm(certificates, is_tls, name):
    async with (
        limited(),
        victim(certificates, Endpoint(never_answer), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(client.post(1))
        client.send(*FLOODS[name] * (BURST // 2))
        client.send(PingFrame(0, opaque_data=b"the last"))
        await client.wait_for(lambda frame: isinstance(frame, PingFrame) and frame.opaque_data == b"the last")


@on_loop(CalmLoop)
async def test_window_updates_of_a_client_that_reads_cost_nothing(certificates, is_tls):
    async with limited():
        update = WindowUpdateFrame(0, window_increment=1)
        async with victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server, server.http2() as client:
            for stream_id in odd(2 * BURST // WINDOW_UPDATES_PER_DATA_FRAME):
                client.send(client.request(stream_id))
                await client.body(stream_id)
                client.send(*[update] * WINDOW_UPDATES_PER_DATA_FRAME)
            client.send(*[update] * TOO_MANY)
            assert await client.goodbye() == ENHANCE_YOUR_CALM


@on_loop(CalmLoop)
async def test_client_that_goes_on_after_its_end_is_no_error(certificates, is_tls):
    problems = []

    async with limited():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async with victim(certificates, is_tls=is_tls) as server, server.http2() as client:
            while not client.peer.is_over:
                client.send(*[PingFrame(0, opaque_data=bytes(8))] * 300)
                await asyncio.sleep(0)
            await settle_down()
    assert problems == []


@on_loop(CalmLoop)
async def test_rapid_reset_ends_the_connection_and_few_requests_begin(certificates, is_tls, monkeypatch):
    monkeypatch.setattr(listening._QueueConfig, "graceful_timeout", 0.05)

    async with limited():
        app = Endpoint(stay_whatever_happens)
        async with victim(certificates, app, is_tls=is_tls) as server, server.http2() as client:
            pairs = [(client.request(n), RstStreamFrame(n, error_code=8)) for n in odd(TOO_MANY)]
            client.send(*chain.from_iterable(pairs[:300]))
            await eventually(lambda: server.refused("too_many_streams"))
            client.send(*chain.from_iterable(pairs[300:]))
            assert await client.goodbye() == ENHANCE_YOUR_CALM
            assert app.entered == 2 * MAX_STREAMS


@on_loop(CalmLoop)
async def test_rapid_reset_leaves_no_task_behind(certificates, is_tls):
    async with limited():
        app = Endpoint(never_answer)
        async with victim(certificates, app, is_tls=is_tls) as server, server.http2() as client:
            for stream_id in odd(500):
                client.send(client.request(stream_id), RstStreamFrame(stream_id, error_code=8))
                await asyncio.sleep(0)
            await eventually(lambda: app.entered and not app.inside)


REASONS_TO_RESET = {
    "a path that is not ASCII": lambda client, n: [client.request(n, path="/\N{SNOWMAN}")],
    "a window that grows too far": lambda client, n: [client.post(n), WindowUpdateFrame(n, window_increment=2**31 - 1)],
    "DATA after the end": lambda client, n: [client.request(n), DataFrame(n, data=b"x")],
}


@pytest.mark.parametrize("make_frames", REASONS_TO_RESET.values(), ids=REASONS_TO_RESET)
@on_loop(CalmLoop)
async def test_resets_that_the_server_is_made_to_send_count_too(certificates, is_tls, make_frames):
    async with (
        limited(),
        victim(certificates, Endpoint(never_answer), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(*chain.from_iterable(make_frames(client, stream_id) for stream_id in odd(TOO_MANY)))
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("flood") == 1


@pytest.mark.parametrize("first_id", [1, 501], ids=["forgotten", "known"])
@on_loop(CalmLoop)
async def test_headers_of_a_stream_that_was_reset_count_too(certificates, is_tls, first_id):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(client.post(first_id), RstStreamFrame(first_id, error_code=8))
        for stream_id in range(first_id + 2, 501, 2):
            client.send(client.request(stream_id))
            await client.body(stream_id)
        client.send(*[HeadersFrame(first_id, data=b"\x82", flags=["END_HEADERS", "END_STREAM"])] * TOO_MANY)
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("flood") == 1


@on_loop(CalmLoop)
async def test_streams_above_the_limit_are_refused_and_the_others_are_answered(certificates, is_tls):
    async with limited(), victim(certificates, Endpoint(echo), is_tls=is_tls) as server, server.http2() as client:
        allowed, extra = odd(MAX_STREAMS), range(201, 301, 2)
        client.send(*(client.post(stream_id) for stream_id in (*allowed, *extra)))
        assert {await client.reset_of(stream_id) for stream_id in extra} == {REFUSED_STREAM}
        client.send(*(DataFrame(stream_id, data=b"x", flags=["END_STREAM"]) for stream_id in allowed))
        assert {await client.body(stream_id) for stream_id in allowed} == {b"x"}
        assert server.refused("too_many_streams") == len(extra)
        client.send(client.request(301))
        assert await client.status(301) == 200


@on_loop(CalmLoop)
async def test_thousands_of_requests_on_one_connection(certificates, is_tls):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        for first in range(1, 4000, 100):
            streams = range(first, first + 100, 2)
            client.send(*(client.request(stream_id) for stream_id in streams))
            assert {await client.status(stream_id) for stream_id in streams} == {200}


@on_loop(CalmLoop)
async def test_data_after_an_early_reply_costs_nobody_anything(certificates, is_tls):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(client.post(1))
        assert await client.status(1) == 200
        assert await client.reset_of(1) == 0
        client.send(DataFrame(1, data=bytes(1000)), DataFrame(1, data=bytes(1000), flags=["END_STREAM"]))
        client.send(client.request(3))
        assert await client.status(3) == 200
        await asyncio.wait_for(server.served.stop(), 2)


@on_loop(CalmLoop)
async def test_bodies_that_nobody_wanted_are_no_flood(certificates, is_tls):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        for stream_id in odd(200):
            client.send(client.post(stream_id))
            assert await client.reset_of(stream_id) == 0
            client.send(*[DataFrame(stream_id, data=bytes(100))] * 10)
        client.send(client.request(1001))
        assert await client.status(1001) == 200
        assert server.refused("flood") == 0


@on_loop(CalmLoop)
async def test_data_without_end_for_a_stream_that_was_answered_is_a_flood(certificates, is_tls):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(client.post(1))
        assert await client.reset_of(1) == 0
        client.send(*[DataFrame(1, data=bytes(100))] * (TOO_MANY + LATE_DATA_PER_RESET))
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("flood") == 1


@on_loop(CalmLoop)
async def test_strangers_who_use_too_much_are_refused_before_they_are_answered(certificates, is_tls):
    memory = Memory(64 << 20, has_users=True)
    async with (
        limited(),
        victim(certificates, Endpoint(never_answer), is_tls=is_tls, limits={"memory": memory}) as server,
        server.http2() as client,
    ):
        client.send(*(client.post(stream_id) for stream_id in odd(16)))
        await eventually(lambda: memory.amounts().get(Purpose.REQUESTS, 0) > 0)
        memory.of_address("127.0.0.1").add(Purpose.INPUT, 4 << 20)
        client.send(client.post(1001))
        assert await client.reset_of(1001) == REFUSED_STREAM
        assert server.refused("memory") == 1
        peer = await server.raw()
        assert await peer.until_over() == b""
        assert server.refused("memory") == 2
        memory.of_address("127.0.0.1").add(Purpose.INPUT, -4 << 20)
        client.send(client.post(1003))
        await eventually(lambda: server.app.inside == 17)
    await eventually(lambda: not memory.amounts())


@on_loop(CalmLoop)
async def test_a_body_for_which_there_is_no_memory_is_answered_429(certificates, is_tls):
    memory = Memory(640 << 20)
    async with (
        limited(),
        victim(certificates, Endpoint(echo), is_tls=is_tls, limits={"memory": memory}) as server,
        server.http2() as client,
    ):
        client.send(client.post(1))
        memory.add(Purpose.COMMITS, 577 << 20)
        for _ in range(5):
            client.send(DataFrame(1, data=bytes(14_000)))
            await asyncio.sleep(0.01)  # so that the window is opened again
        assert await client.status(1) == 429
        assert orjson.loads(await client.body(1))["code"] == "LIMIT"
        memory.add(Purpose.COMMITS, -577 << 20)
        client.send(client.post(3), DataFrame(3, data=b"x", flags=["END_STREAM"]))
        assert await client.body(3) == b"x"
    await eventually(lambda: not memory.amounts())


@on_loop(CalmLoop)
async def test_a_reply_that_waits_for_windows_is_charged_until_it_is_sent(certificates, is_tls):
    memory = Memory(640 << 20)
    settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
    async with (
        limited(),
        victim(certificates, Endpoint(answer_much), is_tls=is_tls, limits={"memory": memory}) as server,
    ):
        async with server.http2(settings) as client:
            client.send(*(client.request(stream_id) for stream_id in odd(3)))
            await eventually(lambda: memory.amounts().get(Purpose.OUTPUT) == 3 * (MUCH_BYTES + 2 * PIECE_BYTES))
            client.send(*(WindowUpdateFrame(stream_id, window_increment=MUCH_BYTES) for stream_id in odd(3)))
            client.send(WindowUpdateFrame(0, window_increment=3 * MUCH_BYTES))
            assert {len(await client.body(stream_id)) for stream_id in odd(3)} == {MUCH_BYTES}
            await eventually(lambda: Purpose.OUTPUT not in memory.amounts())
        await eventually(lambda: not memory.amounts())


@on_loop(CalmLoop)
async def test_short_replies_that_wait_for_windows_are_charged_too(certificates, is_tls):
    """Each of the hundred streams of a connection could keep almost 64 KiB that counted for no memory limit."""
    memory = Memory(640 << 20)
    settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
    async with (
        limited(),
        victim(certificates, Endpoint(answer_little), is_tls=is_tls, limits={"memory": memory}) as server,
    ):
        async with server.http2(settings) as client:
            client.send(*(client.request(stream_id) for stream_id in odd(40)))
            await eventually(lambda: memory.amounts().get(Purpose.OUTPUT, 0) >= 40 * LITTLE_BYTES)
        await eventually(lambda: not memory.amounts())


@on_loop(CalmLoop)
async def test_body_that_is_not_read_holds_up_no_other_request(certificates, is_tls):
    async with limited():
        may_go_on = asyncio.Event()

        async def read_or_not(scope, receive, send):
            if scope["path"] == "/unread":
                await may_go_on.wait()
            else:
                await echo(scope, receive, send)

        async with victim(certificates, Endpoint(read_or_not), is_tls=is_tls) as server, server.http2() as client:
            client.send(client.post(1, path="/unread"), *[DataFrame(1, data=bytes(600)) for _ in range(100)])
            client.send(client.post(3), DataFrame(3, data=b"x", flags=["END_STREAM"]))
            assert await client.body(3) == b"x"
            may_go_on.set()


def leave_by_closing(client):
    client.peer.transport.close()


def leave_by_aborting(client):
    client.peer.transport.abort()


def leave_by_resetting(client):
    client.send(*(RstStreamFrame(stream_id) for stream_id in odd(50)))


def leave_by_saying_goodbye(client):
    client.send(GoAwayFrame(0))
    client.peer.transport.close()


def leave_in_anger(client):
    client.send(GoAwayFrame(0, error_code=PROTOCOL_ERROR))


@pytest.mark.parametrize(
    "leave", [leave_by_closing, leave_by_aborting, leave_by_resetting, leave_by_saying_goodbye, leave_in_anger]
)
@pytest.mark.parametrize("make_app", [lambda: Endpoint(never_answer), Source], ids=["silent", "sending"])
@on_loop(CalmLoop)
async def test_who_leaves_takes_his_tasks_along(certificates, is_tls, leave, make_app):
    async with limited():
        app = make_app()
        async with victim(certificates, app, is_tls=is_tls) as server, server.http2() as client:
            client.send(*(client.post(stream_id) for stream_id in odd(50)))
            await eventually(lambda: app.inside == 50)
            leave(client)
            await eventually(lambda: app.inside == 0)
            await asyncio.wait_for(server.served.stop(), 2)


@on_loop(CalmLoop)
async def test_closed_windows_keep_the_applications_waiting(certificates, is_tls):
    async with limited():
        app = Source()
        settings = {SettingsFrame.INITIAL_WINDOW_SIZE: 0}
        async with victim(certificates, app, is_tls=is_tls) as server, server.http2(settings) as client:
            client.send(*(client.request(stream_id) for stream_id in odd(99)))
            assert await client.status(197) == 200
            await settle_down()
            assert app.sent_bytes <= 99 * 48 * 1024


@on_loop(CalmLoop)
async def test_client_that_reads_no_acknowledgements_is_sent_away(certificates, is_tls):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.peer.transport.pause_reading()
        client.send(*[PingFrame(0, opaque_data=bytes(8))] * TOO_MANY)
        await eventually(lambda: server.refused("flood"))


@on_loop(CalmLoop)
async def test_priorities_are_ignored(certificates, is_tls):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        client.send(*(PriorityFrame(n, depends_on=n + 2, stream_weight=1) for n in odd(900)))
        client.send(PriorityFrame(2001, depends_on=1999, exclusive=True), client.request(2001))
        assert await client.status(2001) == 200


@pytest.mark.parametrize("kind", [0, 1, 4, 6, 0xFA], ids=["DATA", "HEADERS", "SETTINGS", "PING", "unknown"])
@on_loop(CalmLoop)
async def test_frame_that_would_be_too_long_ends_the_connection_before_it_comes(certificates, is_tls, kind):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.peer.write((2**24 - 1).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, kind < 2]))
        assert await client.goodbye() == FRAME_SIZE_ERROR
        assert server.refused("long_frame") == 1


@on_loop(CalmLoop)
async def test_headers_without_an_end_to_their_frames_are_cut(certificates, is_tls):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(HeadersFrame(1, data=client.headers()), *[ContinuationFrame(1, data=b"")] * 100)
        assert await client.goodbye() == PROTOCOL_ERROR
        assert server.refused("protocol_error") == 1


@pytest.mark.parametrize(
    "fields",
    [[("x", "y" * 9000)], [("x" + str(n), "y" * 100) for n in range(63)], [("x" + str(n), "") for n in range(61)]],
    ids=["one that is large", "together too large", "too many"],
)
@on_loop(CalmLoop)
async def test_headers_over_the_limit_end_the_connection(certificates, is_tls, fields):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(client.request(1, *fields))
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("large_headers") == 1


@on_loop(CalmLoop)
async def test_headers_that_unfold_to_much_more_end_the_connection(certificates, is_tls):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(client.request(1, ("x", "y" * 2000)))
        client.send(client.request(3, *[("x", "y" * 2000)] * 50))  # each of them is now one byte
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("large_headers") == 1


def block_of(stream_id: int, block: bytes) -> list:
    """Return the frames of a request whose block of headers is longer than a frame."""
    parts = [block[start : start + 16_384] for start in range(0, len(block), 16_384)]
    frames = [ContinuationFrame(stream_id, data=part) for part in parts[1:]]
    frames[-1].flags.add("END_HEADERS")
    return [HeadersFrame(stream_id, data=parts[0], flags=["END_STREAM"]), *frames]


@on_loop(CalmLoop)
async def test_block_of_headers_longer_than_its_fields_may_be_is_not_waited_for(certificates, is_tls):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as client:
        client.send(*block_of(1, bytes(4 * 8192 + 1))[:-1], ContinuationFrame(1, data=bytes(1)))
        assert await client.goodbye() == ENHANCE_YOUR_CALM
        assert server.refused("large_headers") == 1


@on_loop(CalmLoop)
async def test_block_of_headers_that_is_long_by_its_code_is_taken(certificates, is_tls):
    async with (
        limited(),
        victim(certificates, Endpoint(answer_early), is_tls=is_tls) as server,
        server.http2() as client,
    ):
        block = client.headers(("x", "\N{LATIN SMALL LETTER Y WITH DIAERESIS}" * 3800))
        assert len(block) > 16_384
        client.send(*block_of(1, block))
        assert await client.status(1) == 200


@on_loop(CalmLoop)
async def test_stop_answers_what_is_under_way_and_refuses_what_is_new(certificates, is_tls):
    async with limited(), victim(certificates, Endpoint(echo), is_tls=is_tls) as server, server.http2() as client:
        client.send(client.post(1))
        await eventually(lambda: server.app.inside == 1)
        server.served.shutdown.set()
        await settle_down()
        client.send(client.request(3))
        assert await client.reset_of(3) == REFUSED_STREAM
        client.send(DataFrame(1, data=b"x", flags=["END_STREAM"]))
        assert await client.body(1) == b"x"
        assert await client.goodbye() == 0
        assert server.refused("draining") == 1


@on_loop(CalmLoop)
async def test_what_nobody_has_thought_of_costs_one_connection(certificates, is_tls, monkeypatch):
    def receive_data(connection, data):
        if b"surprise" in data:
            raise LookupError("not thought of")
        return taken(connection, data)

    taken = CountedConnection.receive_data
    monkeypatch.setattr(CountedConnection, "receive_data", receive_data)

    async with limited(), victim(certificates, Endpoint(echo), is_tls=is_tls) as server, server.http2() as innocent:
        async with server.http2() as client:
            client.send(client.request(1), PingFrame(0, opaque_data=b"surprise"))
            assert await client.goodbye() == INTERNAL_ERROR
        innocent.send(innocent.request(1))
        assert await innocent.status(1) == 200
        assert server.refused("internal_error") == 1


@on_loop(CalmLoop)
async def test_messages_are_published_and_consumed_beside_an_attack(certificates, is_tls):
    async with limited(), victim(certificates, is_tls=is_tls) as server, server.http2() as innocent:
        for number in range(10):
            async with server.http2() as attacker:
                attacker.send(*[PingFrame(0, opaque_data=bytes(8))] * TOO_MANY)
                assert await publish(innocent, 2 * number + 1) == 201
        assert server.served.broker.stats()[b"t"].published == 10


@on_loop(CalmLoop)
@pytest.mark.parametrize("is_reserved", [True, False])
async def test_monitoring_is_served_when_all_memory_is_used_up(certificates, is_tls, is_reserved):
    memory = Memory(1 << 20)
    memory.add(Purpose.COMMITS, 2 << 20)
    limits = {"memory": memory, "is_reserved": is_reserved}
    async with limited(), victim(certificates, Endpoint(echo), is_tls=is_tls, limits=limits) as server:
        if not is_reserved:
            peer = await server.raw()
            assert await peer.until_over() == b""
            return
        async with server.http2() as client:
            client.send(client.post(1), DataFrame(1, data=b"x", flags=["END_STREAM"]))
            assert await client.body(1) == b"x"
