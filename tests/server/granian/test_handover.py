"""When a request that Granian hands over begins; it is called from here in place of Granian's thread."""

import asyncio
import contextvars
import threading
from contextlib import asynccontextmanager

import pytest

from miniqueue.server.granian.handover import MAX_SHORT_BODY_BYTES, Handover, has_short_body
from tests.fakes import settle_down
from tests.server.apps import read_all

SHORT = (b"content-length", b"4")


class Request:
    """A request as Granian hands it over: what comes is put in, what goes is kept."""

    def __init__(self, *headers) -> None:
        self.scope = {"type": "http", "headers": list(headers)}
        self.proto = self
        self.asked = []
        self.sent = []
        self.end = None

    def receive(self):
        future = asyncio.get_running_loop().create_future()
        self.asked.append(future)
        return future

    def put(self, body: bytes, *, more_body: bool) -> None:
        message = {"type": "http.request", "body": body, "more_body": more_body}
        self.asked[-1].set_result(message)

    async def send(self, message):
        self.sent.append(message)

    def taskref(self, task):
        self.task = task

    def done(self):
        self.end = "done"

    def err(self, error):
        self.end = error


class Reads:
    """An application that reads its body, and keeps what it is given."""

    def __init__(self) -> None:
        self.scopes = []
        self.bodies = []

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        self.bodies.append(await read_all(receive))


@asynccontextmanager
async def handing_over():
    """Run a scenario with an application, what starts it, and what hands a request over."""

    app = Reads()
    handover = Handover(app)

    def hand_over(request):
        handover.schedule(asyncio.get_running_loop(), contextvars.copy_context(), request)

    yield app, handover, hand_over


async def test_short_body_is_there_when_the_application_begins():
    async with handing_over() as (app, _handover, hand_over):
        request = Request(SHORT)
        hand_over(request)
        await settle_down()
        assert app.scopes == []
        request.put(b"body", more_body=False)
        await settle_down()
        assert app.bodies == [b"body"]
        assert len(request.asked) == 1
        assert request.end == "done"


async def test_short_body_in_parts_is_read_to_its_end():
    async with handing_over() as (app, _handover, hand_over):
        request = Request(SHORT)
        hand_over(request)
        for part, more_body in ((b"bo", True), (b"dy", True), (b"", False)):
            request.put(part, more_body=more_body)
            await settle_down()
        assert app.bodies == [b"body"]


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"content-length", b"0")],
        [(b"content-length", b"%d" % (MAX_SHORT_BODY_BYTES + 1))],
        [SHORT, (b"expect", b"100-continue")],
    ],
    ids=["of unknown length", "none", "long", "to be asked for"],
)
async def test_application_begins_before_any_other_body(headers):
    async with handing_over() as (app, _handover, hand_over):
        request = Request(*headers)
        hand_over(request)
        await settle_down()
        assert len(app.scopes) == 1
        request.put(b"body", more_body=False)
        await settle_down()
        assert app.bodies == [b"body"]


async def test_request_begins_without_its_body_when_it_is_told_to():
    async with handing_over() as (app, handover, hand_over):
        request = Request(SHORT)
        hand_over(request)
        handover.begin()
        await settle_down()
        assert len(app.scopes) == 1
        request.put(b"body", more_body=False)
        await settle_down()
        handover.begin()
        await settle_down()
        assert app.bodies == [b"body"]
        assert len(app.scopes) == len(request.asked) == 1


async def test_error_of_the_application_is_passed_on():
    error = RuntimeError("out of cheese")

    async def broken(scope, receive, send):
        raise error

    request = Request()
    Handover(broken).schedule(asyncio.get_running_loop(), contextvars.copy_context(), request)
    await settle_down()
    assert request.end is error


@pytest.mark.parametrize("length", [b"", b"-1", b"4 ", b"x", b"99999", b"9" * 5000])
def test_length_that_is_none_is_not_short(length):
    assert not has_short_body({"headers": [(b"content-length", length)]})


async def test_body_is_not_lost_when_a_request_is_told_to_begin_while_it_is_asked_for():
    async with handing_over() as (app, handover, _hand_over):
        loop = asyncio.get_running_loop()

        async def begin():
            handover.begin()
            await settle_down()

        class Interrupted(Request):
            def receive(self):
                future = loop.create_future()
                self.asked.append(future)
                if threading.current_thread() is not threading.main_thread():
                    asyncio.run_coroutine_threadsafe(begin(), loop).result()
                return future

        request = Interrupted(SHORT)
        await asyncio.to_thread(handover.schedule, loop, contextvars.copy_context(), request)
        request.asked[0].set_result({"type": "http.request", "body": b"body", "more_body": False})
        await settle_down()
        assert app.bodies == [b"body"]
        assert len(request.asked) == 1


async def test_requests_that_are_told_to_begin_do_so_in_their_order():
    async with handing_over() as (app, handover, hand_over):
        requests = [Request(SHORT) for _ in range(100)]
        for request in reversed(requests):
            hand_over(request)
        handover.begin()
        await settle_down()
        assert list(map(id, app.scopes)) == [id(request.scope) for request in reversed(requests)]
