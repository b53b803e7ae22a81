"""A request that lasts: neither end is sent more than it reads."""

import asyncio

import pytest

from miniqueue.errors.requests import ShardAwayError
from miniqueue.server.shards.http.frames import MAX_WAITING_BYTES
from miniqueue.server.shards.http.parts.lasting import MAX_PIECES, LastingRequest

START = {"type": "http.response.start", "status": 200, "headers": []}


class Owner:
    """The other end of a request."""

    def __init__(self) -> None:
        self.ends: asyncio.Future[tuple] = asyncio.get_running_loop().create_future()
        self.finishes = asyncio.Event()
        self.over: list[LastingRequest] = []
        self.request = LastingRequest(self.pass_on, self.over.append)

    async def pass_on(self, receive, send) -> None:
        self.ends.set_result((receive, send))
        await self.finishes.wait()


def body(piece: bytes, *, is_last: bool = False) -> dict:
    return {"type": "http.response.body", "body": piece, "more_body": not is_last}


async def is_waiting(task: "asyncio.Task[None]") -> bool:
    """Return whether a task waits, after it has had every chance to end."""
    for _ in range(10):
        await asyncio.sleep(0)
    return not task.done()


async def test_whoever_feeds_waits_while_the_owner_does_not_read():
    owner = Owner()
    receive, _ = await owner.ends
    await owner.request.feed(b"one")
    feeding = asyncio.create_task(owner.request.feed(b"two"))
    assert await is_waiting(feeding)
    assert (await receive())["body"] == b"one"
    await feeding
    for _ in range(MAX_PIECES):
        owner.request.feed_now(b"!")
    draining = asyncio.create_task(owner.request.drain())
    assert await is_waiting(draining)
    assert (await receive())["body"] == b"two" + b"!" * MAX_PIECES
    await draining
    owner.request.end_feed()
    assert await receive() == {"type": "http.request", "body": b"", "more_body": False}
    await owner.request.close()


async def test_an_owner_waits_while_what_it_sends_is_not_read():
    owner = Owner()
    _, send = await owner.ends
    await send(START)
    sending = asyncio.create_task(send(body(b"x" * (MAX_WAITING_BYTES + 1))))
    assert await owner.request.begun() is None
    assert await is_waiting(sending)
    assert len(await owner.request.read()) == MAX_WAITING_BYTES + 1
    await sending
    await send(body(b"end", is_last=True))
    owner.finishes.set()
    assert [await owner.request.read(), await owner.request.read()] == [b"end", b""]
    assert owner.request.is_whole
    assert owner.over == [owner.request]


async def test_an_error_is_the_whole_reply():
    owner = Owner()
    _, send = await owner.ends
    await send(START | {"status": 503})
    await send(body(b'{"code":', is_last=False))
    await send(body(b'"TRYAGAIN"}', is_last=True))
    owner.finishes.set()
    refusal = await owner.request.begun()
    assert refusal is not None
    assert (refusal.status, refusal.body) == (503, b'{"code":"TRYAGAIN"}')


async def test_what_could_not_be_passed_on_is_raised():
    async def pass_on(_receive, _send) -> None:
        raise ShardAwayError("try again")

    request = LastingRequest(pass_on, lambda _: None)
    with pytest.raises(ShardAwayError):
        await request.begun()
    await request.feed(b"in vain")
    await request.feed(b"again")
    assert await request.read() == b""
    await request.close()
