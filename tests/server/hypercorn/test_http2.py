"""One test for each fault of Hypercorn that the guard repairs; each hangs, leaks or grows without it."""

import asyncio
from importlib.metadata import version

import pytest
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import RawData
from hyperframe.frame import DataFrame

from miniqueue.errors import DisconnectedError
from miniqueue.server import hypercorn
from miniqueue.server.asgi.replies import OK, Reply, start_message
from miniqueue.server.hypercorn import listening
from tests.fakes import settle_down
from tests.loops import CalmLoop, on_loop, run_calmly
from tests.server.apps import Endpoint, answer_early, never_answer, read_all
from tests.serving import eventually, serving

MEBIBYTE = 1 << 20


async def answer_without_end(scope, receive, send):
    await send(start_message(200, []))
    for _ in range(1000):
        await send({"type": "http.response.body", "body": bytes(16_384), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("behave", [never_answer, answer_without_end])
@on_loop(CalmLoop)
async def test_who_disconnects_leaves_no_task_behind(certificates, behave):
    app = Endpoint(behave)
    async with serving(certificates, app) as served:
        for _ in range(10):
            await served.begin("/")
        await eventually(lambda: app.inside == 10)
        for client in served.clients:
            client._connection._transport.abort()
        await eventually(lambda: app.inside == 0)
        await asyncio.wait_for(served.stop(), 2)


@on_loop(CalmLoop)
async def test_closed_window_makes_the_application_wait(certificates):
    sent_bytes = 0

    async def send_much(scope, receive, send):
        nonlocal sent_bytes
        await send(start_message(200, []))
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(16_384), "more_body": True})
            sent_bytes += 16_384
            await asyncio.sleep(0)

    async with serving(certificates, Endpoint(send_much)) as served:
        stream = await served.begin("/")  # it is not read: its window closes after 64 KiB
        assert await stream.response() == 200
        await settle_down()
        assert sent_bytes < MEBIBYTE // 4


@on_loop(CalmLoop)
async def test_data_after_an_early_reply_leaves_the_connection_alive(certificates):
    async with serving(certificates, Endpoint(answer_early)) as served:
        client = await served.client()
        stream = await client._begin(b"POST", b"/")
        assert await stream.response() == 200
        # As a client sends that has not seen the reply yet.
        client._connection._transport.write(DataFrame(stream.id, data=bytes(1000)).serialize())
        await client.publish("another", b"x")
        await asyncio.wait_for(served.stop(), 2)


@on_loop(CalmLoop)
async def test_request_that_is_not_over_is_reset_without_an_error_after_the_reply(certificates):
    async with serving(certificates, Endpoint(answer_early)) as served:
        stream = await served.begin("/")
        assert await stream.read_all() == b""
        await eventually(lambda: stream.error is not None)
        assert "code 0" in str(stream.error)


@on_loop(CalmLoop)
async def test_reply_that_is_broken_off_is_reset(certificates):
    async def break_off(scope, receive, send):
        await send(start_message(200, []))
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async with serving(certificates, Endpoint(break_off)) as served:
        stream = await served.begin("/")
        with pytest.raises(DisconnectedError):
            await stream.read_all()


@on_loop(CalmLoop)
async def test_body_that_is_not_read_holds_up_no_other_request(certificates):
    may_read = asyncio.Event()

    async def read_late(scope, receive, send):
        if scope["path"] == "/late":
            await may_read.wait()
        await Reply(200, b"%d" % len(await read_all(receive)))(scope, receive, send)

    async with serving(certificates, Endpoint(read_late)) as served:
        client = await served.client()
        late = await client._begin(b"POST", b"/late")
        for _ in range(200):  # each a frame of its own, and far more than a window in all
            late.write(bytes(10_000))
        late.write(b"", is_last=True)
        await client.publish("another", bytes(100_000))
        may_read.set()
        assert await late.read_all() == b"2000000"


@on_loop(CalmLoop)
async def test_unread_body_gives_its_window_back_when_the_request_ends(certificates):
    async with serving(certificates, Endpoint(answer_early)) as served:
        client = await served.client()
        for _ in range(2 * hypercorn.CONNECTION_WINDOW_BYTES // 60_000):
            await client.publish("t", bytes(60_000))


@on_loop(CalmLoop)
async def test_connection_whose_streams_were_reset_is_idle(certificates):
    app = Endpoint(never_answer)
    async with serving(certificates, app) as served:
        stream = await served.begin("/")
        await eventually(lambda: app.inside == 1)
        stream.close()
        await eventually(lambda: app.inside == 0)
        await asyncio.wait_for(served.stop(), 2)


@on_loop(CalmLoop)
async def test_more_requests_than_the_usual_limit_on_one_connection(certificates):
    async with serving(certificates, Endpoint(answer_early)) as served:
        client = await served.client()
        for _ in range(21):
            await asyncio.gather(*(client.delete_topic("t") for _ in range(50)))


@on_loop(CalmLoop)
async def test_requests_that_never_end_are_broken_off_at_shutdown(certificates, monkeypatch):
    monkeypatch.setattr(listening._QueueConfig, "graceful_timeout", 0.05)

    async def stay(scope, receive, send):
        await asyncio.Event().wait()

    async with serving(certificates, Endpoint(stay)) as served:
        await served.begin("/")
        await eventually(lambda: served.app.inside == 1)
        await asyncio.wait_for(served.stop(), 2)
        assert served.app.inside == 0


def test_requests_that_are_broken_off_at_shutdown_are_no_errors(certificates, monkeypatch):
    monkeypatch.setattr(listening._QueueConfig, "graceful_timeout", 0.05)
    problems = []

    async def scenario():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        async with serving(certificates, Endpoint(never_answer)) as served:
            stream = await served.begin("/")
            stream.write(b"the first part")
            await eventually(lambda: served.app.inside == 1)
            await served.stop()
        await settle_down()

    run_calmly(scenario())
    assert problems == []


def test_replies_that_are_ready_together_are_written_together(certificates, monkeypatch):
    written = []
    protocol_send = TCPServer.protocol_send

    async def count(server, event):
        written.append(event)
        await protocol_send(server, event)

    monkeypatch.setattr(TCPServer, "protocol_send", count)

    async def scenario():
        may_answer = asyncio.Event()

        async def answer_when_told(scope, receive, send):
            await may_answer.wait()
            await OK(scope, receive, send)

        app = Endpoint(answer_when_told)
        async with serving(certificates, app) as served:
            client = await served.client()
            requests = [asyncio.create_task(client.delete_topic("t")) for _ in range(50)]
            await eventually(lambda: app.inside == 50)
            written.clear()
            may_answer.set()
            await asyncio.gather(*requests)
            assert 0 < sum(isinstance(event, RawData) for event in written) < 10  # there are 100 frames

    run_calmly(scenario())


@on_loop(CalmLoop)
async def test_goodbye_to_a_client_that_breaks_the_protocol_is_sent(certificates):
    async with serving(certificates, Endpoint(answer_early)) as served:
        client = await served.client()
        client._connection._transport.write(DataFrame(1, data=b"of a stream that never began").serialize())
        await eventually(lambda: client._connection._lost is not None)
        with pytest.raises(DisconnectedError, match="the server ended the connection"):
            await client.publish("t", b"x")


#: What the repairs reach into. Raise these only after a look at every test of the server with the new version.
CHECKED_VERSIONS = {"hypercorn": "0.18.0", "h2": "4.4.1", "h11": "0.16.0", "hpack": "4.2.0", "priority": "2.0.0"}


def test_the_repairs_were_checked_with_the_versions_that_are_installed():
    assert {name: version(name) for name in CHECKED_VERSIONS} == CHECKED_VERSIONS
    assert CHECKED_VERSIONS["hypercorn"] == hypercorn.HYPERCORN_VERSION


def test_another_version_of_hypercorn_is_refused(monkeypatch):
    monkeypatch.setattr(hypercorn, "version", lambda name: "0.19.0")
    with pytest.raises(RuntimeError, match=r"hypercorn: 0\.19\.0; must be 0\.18\.0"):
        hypercorn.install()
