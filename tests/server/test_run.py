"""Composition: what ends the whole when a part of it ends."""

import asyncio

import pytest

from miniqueue.errors import InternalError
from miniqueue.server import listeners, run
from miniqueue.server.config.config import load
from miniqueue.server.process.accepting import AcceptingLoop


def test_a_listener_that_ends_by_itself_is_a_failure_and_not_a_stop(certificates, monkeypatch):
    async def serve(*_arguments, **_options):
        raise OSError("no more descriptors")

    monkeypatch.setattr(listeners, "serve_plain", serve)
    ports = ["-port=0", "-resp-port=0", "-monitor-port=0"]
    config = load([*ports, "-storage=memory"], {})
    serving = run._serve(config, certificates, None, None, run._listen(config))
    with asyncio.Runner(loop_factory=AcceptingLoop) as runner, pytest.raises(InternalError, match="ended by itself"):
        runner.run(serving)
