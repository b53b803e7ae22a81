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
