"""`miniqueue trace` against a broker on a real port, and what it says when there is none, or no answer."""

import asyncio
import socket
import threading
from contextlib import contextmanager

import pytest

from miniqueue.errors import ConfigError, ConnectError, DisconnectedError, ServerError
from miniqueue.server.resp.server import RespServer
from miniqueue.tools import trace
from miniqueue.tools.ask import ask
from tests.broker.support import started_world
from tests.server.access import sign_in_for, token_of, user
from tests.server.resp.clients import PARAMETERS


def asked(world, sign_in, *words: str):
    """Return what becomes of the tool beside a broker that listens."""

    async def scenario():
        server = await asyncio.get_running_loop().create_server(
            RespServer(world.broker, PARAMETERS, sign_in), "127.0.0.1", 0
        )
        try:
            url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            return await asyncio.to_thread(trace.run, ["-url", url, *words], {})
        finally:
            server.close()
            await server.wait_closed()

    return scenario()


async def having_a_rejected_message(world) -> None:
    await world.broker.admin.create(b"t", {"trace": True, "max_deliveries": 1}).wait()
    await world.publish(b"t", b"a")
    holder = await world.holding(b"t")
    world.clock.advance(1.5)
    holder.consumer.nack()
    await world.commit()


async def test_a_timeline_is_printed(capsys):
    async with started_world() as world:
        await having_a_rejected_message(world)
        assert await asked(world, None, "t", "0-0") == 0
    assert capsys.readouterr().out.splitlines() == [
        "2023-11-14 22:13:20.000Z  published",
        "2023-11-14 22:13:20.000Z  committed",
        "2023-11-14 22:13:20.000Z  delivered  group default  receipt 1",
        "2023-11-14 22:13:21.500Z  nacked  group default",
        "2023-11-14 22:13:21.500Z  dead lettered  to t.dlq 0-0  group default",
        "-- t.dlq 0-0",
        "2023-11-14 22:13:21.500Z  arrived  from t 0-0  reason max_deliveries",
    ]


async def test_a_user_shows_a_token(tmp_path, capsys):
    token = tmp_path / "token"
    token.write_bytes(token_of("bob") + b"\n")

    async with started_world() as world:
        await having_a_rejected_message(world)
        sign_in = sign_in_for(user("bob", monitor=("t",)))
        assert await asked(world, sign_in, "-token-file", str(token), "t", "0-0") == 0
        with pytest.raises(ServerError, match="NOAUTH"):
            await asked(world, sign_in, "t", "0-0")
    assert "nacked" in capsys.readouterr().out


async def test_what_is_not_known_is_said(world):
    await world.publish(b"t", b"a")
    with pytest.raises(ServerError, match="the broker refused: NOMESSAGE nothing is known"):
        await asked(world, None, "t", "0-0")


@pytest.mark.parametrize(
    ("event", "reason", "line"),
    [
        (b"sought", b"0-24", "sought  group g  next 0-24"),
        (b"left_out", b"18002", "left out  group g  18002 steps"),
        (b"rejected", "{} é".encode(), "rejected  group g  reason {} é"),
    ],
)
def test_what_is_no_reason_is_not_called_one(event, reason, line):
    step = {b"event": event, b"at_ms": 0, b"topic": b"t", b"id": b"0-0", b"group": b"g", b"reason": reason}
    assert trace.timeline([step], (b"t", b"0-0")) == [f"1970-01-01 00:00:00.000Z  {line}"]


def test_what_a_peer_has_written_is_shown_on_one_line():
    steps = [{b"event": b"rejected", b"at_ms": 0, b"topic": b"t", b"id": b"0-0", b"reason": b"\x1b[2J\n\xff"}]
    assert trace.timeline(steps, (b"t", b"0-0")) == ["1970-01-01 00:00:00.000Z  rejected  reason \\x1b[2J\\n\\xff"]


@pytest.mark.parametrize(
    "words",
    [
        ["t"],
        ["-url", "http://x", "t", "0-0"],
        ["-url", "redis://x:y", "t", "0-0"],
        ["-token-file", "/none", "t", "0-0"],
    ],
)
def test_wrong_words_are_refused(words):
    with pytest.raises(ConfigError):
        trace.run(words, {})


def test_help_is_the_usage(capsys):
    assert trace.run(["-h"], {}) == 0
    assert capsys.readouterr().out == trace.USAGE


@contextmanager
def answering(data: bytes):
    """Listen as a peer that says this to the first who comes, and leaves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            peer, _ = listener.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 400\r\n\r\n", b"*1\r\n"])
def test_a_peer_that_does_not_answer_as_a_broker_is_no_crash(data):
    with answering(data) as url, pytest.raises(DisconnectedError):
        ask(url, None, [b"PING"])


def test_nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectError):
        ask(f"redis://127.0.0.1:{port}", None, [b"PING"])
