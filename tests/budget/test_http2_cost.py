"""What a request over HTTP/2 costs below the application: in our repairs and limits of Hypercorn, and in all of it.

The same rules as in `test_cost`. Some repairs do in a few instructions what Hypercorn, h2 and hpack do in many: so
there is a budget for all these together, too. They took 14,500 for each request, now 7,300.
"""

import asyncio
import sys
import time
from pathlib import Path

import h2
import hpack
import pytest
from hypercorn import config as hypercorn_config
from hypercorn import protocol
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.events import Closed, RawData
from hypercorn.typing import ConnectionState
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from miniqueue.server import hypercorn
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.asgi.replies import CREATED
from miniqueue.server.hypercorn import listening
from tests.budget.counting import counting
from tests.budget.test_cost import MAY_BE_BELOW, SLACK
from tests.server.hypercorn.raw_http2 import PREFACE

#: Instructions for each request, by how many come in one read; CPython 3.11: other versions compile to others.
BUDGETS = {1: 1660, 32: 1400}
#: The same with the packages that ours stands on.
BUDGETS_OF_ALL = {1: 7_290, 32: 6_880}
PACKAGES = str(Path(h2.__file__).parents[1])
FIELDS = [
    (":method", "POST"),
    (":scheme", "https"),
    (":path", "/publish/t"),
    (":authority", "localhost"),
    ("content-length", "10"),
]

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budgets are for CPython 3.11")


async def answer(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await CREATED(scope, receive, send)


class AnswersTogether:
    """Answers so many requests when all are there, as those that wait for one commit are answered."""

    def __init__(self, count: int) -> None:
        self._barrier = asyncio.Barrier(count)

    async def __call__(self, scope, receive, send):
        await self._barrier.wait()
        await answer(scope, receive, send)


class Client:
    """Makes the bytes of requests."""

    def __init__(self) -> None:
        self._encoder = hpack.Encoder()
        self._next_stream_id = 1

    def requests(self, count: int) -> bytes:
        return b"".join(self._request() for _ in range(count))

    def _request(self) -> bytes:
        stream_id, self._next_stream_id = self._next_stream_id, self._next_stream_id + 2
        headers = HeadersFrame(stream_id, data=self._encoder.encode(FIELDS), flags=["END_HEADERS"])
        return headers.serialize() + DataFrame(stream_id, data=bytes(10), flags=["END_STREAM"]).serialize()


async def cost(requests_in_a_read: int, *folders: str, rounds: int = 20, app=answer) -> float:
    """Return the instructions for each request, in memory and without TLS."""
    hypercorn.install()
    config = listening._QueueConfig()
    config.limits = hypercorn.HttpLimits(Refusals(time.monotonic))
    client = Client()

    async def ignore(event):
        pass

    async with TaskGroup(asyncio.get_running_loop()) as tasks:
        server = protocol.H2Protocol(
            ASGIWrapper(app), config, WorkerContext(None), tasks, ConnectionState({}), True, None, None, ignore
        )
        await server.initiate()
        await serve(server, PREFACE + SettingsFrame(0).serialize() + client.requests(requests_in_a_read))
        with counting(*folders) as counter:
            for _ in range(rounds):
                await serve(server, client.requests(requests_in_a_read))
        await server.handle(Closed())
    return counter.count / (rounds * requests_in_a_read)


async def serve(server, data: bytes) -> None:
    """Wait until all that was read is answered."""
    await server.handle(RawData(data))
    while server.streams or server.stream_buffers:  # noqa: ASYNC110 - Hypercorn sets no event
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("requests_in_a_read", BUDGETS)
@pytest.mark.parametrize(("budgets", "folders"), [(BUDGETS, ()), (BUDGETS_OF_ALL, (PACKAGES,))], ids=["ours", "all"])
def test_the_cost_is_within_its_budget(requests_in_a_read, budgets, folders):
    found, budget = asyncio.run(cost(requests_in_a_read, *folders)), budgets[requests_in_a_read]
    assert found <= budget * (1 + SLACK), f"{found:.0f} instructions for each request, the budget is {budget}"
    assert found >= budget * (1 - MAY_BE_BELOW), (
        f"{found:.0f} instructions for each request: lower the budget of {budget}"
    )


@pytest.mark.slow
def test_requests_that_wait_for_each_other_cost_hardly_more(monkeypatch):
    monkeypatch.setattr(hypercorn_config, "time", lambda: 0.0)  # headers with a new date cost more, once a second
    found, of_others = (asyncio.run(cost(32, PACKAGES, app=app)) for app in (AnswersTogether(32), answer))
    assert found <= 1.01 * of_others, f"{found:.0f} instructions for each request, others take {of_others:.0f}"
