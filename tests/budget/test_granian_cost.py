"""What a publish costs on the loop where Granian serves, in bytecode: its hand-over, and the application.

The same rules as in `test_cost`.
"""

import asyncio
import contextvars
import sys
import time

import pytest

from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.granian.handover import Handover
from miniqueue.server.granian.requests import Requests
from miniqueue.server.http.app import HttpApp
from tests.budget.counting import counting
from tests.budget.test_cost import MAY_BE_BELOW, SLACK, measured

#: Instructions for each of the requests that come together; CPython 3.11: other versions compile to others.
BUDGET = 960
REQUESTS = 32

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budget is for CPython 3.11")


class Publish:
    """A request as Granian hands it over, and its client."""

    def __init__(self, ends: list[str]) -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "http_version": "2",
            "path": "/publish/t",
            "raw_path": b"/publish/t",
            "query_string": b"",
            "headers": [(b"content-length", b"10"), (b"user-agent", b"client"), (b"host", b"localhost")],
        }
        self.proto = self
        self._ends = ends
        self._body: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()

    def receive(self):
        return self._body

    def send_body(self):
        self._body.set_result({"type": "http.request", "body": bytes(10), "more_body": True})

    async def send(self, message):
        assert message.get("status", 201) == 201

    def taskref(self, task):
        self._task = task

    def done(self):
        self._ends.append("done")

    def err(self, error):
        raise error


def cost_of_publishing(rounds: int) -> float:
    async def body(world):
        handover = Handover(Requests(HttpApp(world.broker), Refusals(time.monotonic)))

        async def publish(count):
            ends = []
            requests = [Publish(ends) for _ in range(count)]
            for request in requests:
                handover.schedule(asyncio.get_running_loop(), contextvars.copy_context(), request)
                request.send_body()
            while len(ends) < count:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0)

        await publish(1)  # makes the topic
        with counting() as counter:
            for _ in range(rounds):
                await publish(REQUESTS)
        return counter.count / (rounds * REQUESTS)

    return measured(body)


@pytest.mark.slow
def test_the_cost_is_within_its_budget():
    found = cost_of_publishing(20)
    assert found <= BUDGET * (1 + SLACK), f"{found:.0f} instructions for each request, the budget is {BUDGET}"
    assert found >= BUDGET * (1 - MAY_BE_BELOW), f"{found:.0f} for each request: lower the budget of {BUDGET}"
