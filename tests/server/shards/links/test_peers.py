"""Whether other shards answer, as the process of one knows it."""

import asyncio
from contextlib import suppress
from itertools import chain, repeat

import pytest

from miniqueue.core.settings.placing import Placing
from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.back import Answerer, Back
from miniqueue.server.shards.links import peers as peers_module
from miniqueue.server.shards.links.peers import Peers
from tests.fakes import settle_down
from tests.loops import on_loop


class Process(Answerer):
    """A process of the other shard: it answers so many questions, and ends at the next one."""

    def __init__(self, answer_count, answered):
        super().__init__(answered.append)
        self._left = answer_count

    def data_received(self, data):
        self._left -= 1
        if self._left < 0:
            self._transport.abort()
        else:
            super().data_received(data)


@pytest.mark.parametrize("answers_of_each", [[2, 1, 3], [1]])
async def test_a_shard_whose_process_was_started_again_is_not_away(answers_of_each, tmp_path, monkeypatch):
    monkeypatch.setattr(peers_module, "ASK_SECONDS", 0)
    paths = [tmp_path / "0", tmp_path / "1"]
    left, answered, away = chain(answers_of_each, repeat(0)), [], []
    back = Back({"ping": lambda _introduction: Process(next(left), answered)})
    server = await asyncio.get_running_loop().create_unix_server(back, str(paths[1]))
    peers = Peers(Placing(0, 2), paths)
    peers.on_away = lambda number: away.append((number, len(answered)))
    watching = asyncio.ensure_future(peers.watch())
    while not away:  # noqa: ASYNC110 - until no process answers any more
        await asyncio.sleep(0)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    server.close()
    assert away[0] == (1, sum(answers_of_each))
    with pytest.raises(ShardAwayError):
        peers.check(1)


class StoppableLoop(asyncio.SelectorEventLoop):
    """A loop of a process that can be stopped: time passes, and nothing else happens."""

    stopped_seconds = 0.0

    def time(self) -> float:
        return super().time() + self.stopped_seconds


class Witness(Answerer):
    """A process of the other shard: the one that asks is stopped while the answer is on its way to it."""

    def __init__(self, answered, pause_seconds):
        super().__init__(answered.append)
        self._pause_seconds = pause_seconds

    def data_received(self, data):
        loop = asyncio.get_running_loop()
        loop.stopped_seconds += 30
        if self._pause_seconds is None:
            super().data_received(data)
        else:
            loop.call_later(self._pause_seconds, super().data_received, data)


@on_loop(StoppableLoop)
@pytest.mark.parametrize("pause_seconds", [None, 0, 0.01], ids=["has come", "comes at once", "comes a little later"])
async def test_a_shard_is_not_away_because_the_process_that_asks_was_stopped(pause_seconds, tmp_path, monkeypatch):
    monkeypatch.setattr(peers_module, "ASK_SECONDS", 0)
    paths = [tmp_path / "0", tmp_path / "1"]
    answered, away = [], []
    back = Back({"ping": lambda _introduction: Witness(answered, pause_seconds)})
    server = await asyncio.get_running_loop().create_unix_server(back, str(paths[1]))
    peers = Peers(Placing(0, 2), paths)
    peers.on_away = away.append
    watching = asyncio.ensure_future(peers.watch())
    while len(answered) < 5:  # noqa: ASYNC110 - until it has answered some questions
        await asyncio.sleep(0)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    server.close()
    assert away == []
    peers.check(1)
    peers.note_away(1)  # the link ends
    await settle_down()


class Silent(asyncio.Protocol):
    """A process that answers nothing; the argument is completed when it is given up."""

    def __init__(self, given_up):
        self._given_up = given_up

    def connection_lost(self, exc):
        self._given_up.set_result(None)


async def test_a_shard_that_does_not_answer_in_time_is_away(tmp_path, monkeypatch):
    monkeypatch.setattr(peers_module, "PAUSE_SECONDS", 0.001)
    paths = [tmp_path / "0", tmp_path / "1"]
    loop = asyncio.get_running_loop()
    given_up, away = loop.create_future(), loop.create_future()
    server = await loop.create_unix_server(lambda: Silent(given_up), str(paths[1]))
    peers = Peers(Placing(0, 2), paths)
    peers.on_away = away.set_result
    watching = asyncio.ensure_future(peers.watch())
    assert await away == 1
    await given_up
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    server.close()
    with pytest.raises(ShardAwayError):
        peers.check(1)
