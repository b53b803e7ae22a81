"""Applications for tests of the server below them."""

import asyncio

from miniqueue.server.asgi.replies import OK, Reply, start_message


class Endpoint:
    """An application whose behaviour is a coroutine function, and which counts who is inside."""

    def __init__(self, behave):
        self.behave = behave
        self.inside = 0
        self.entered = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        self.inside += 1
        self.entered += 1
        try:
            await self.behave(scope, receive, send)
        finally:
            self.inside -= 1


async def read_all(receive) -> bytes | None:
    """Return the body; None when the client has left."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


async def echo(scope, receive, send):
    body = await read_all(receive)
    if body is not None:
        await Reply(200, body)(scope, receive, send)


async def answer_early(scope, receive, send):
    await OK(scope, receive, send)


async def never_answer(scope, receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass


async def stay_whatever_happens(scope, receive, send):
    await asyncio.Event().wait()


class Source:
    """An application that sends as much as is taken, and counts it; it ends when its client leaves."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self.inside = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        self.inside += 1
        leaving = asyncio.create_task(never_answer(scope, receive, send))
        try:
            await send(start_message(200, []))
            while not leaving.done():
                await send({"type": "http.response.body", "body": bytes(16_384), "more_body": True})
                self.sent_bytes += 16_384
                await asyncio.sleep(0)
        finally:
            leaving.cancel()
            self.inside -= 1
