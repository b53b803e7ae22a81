"""`GET /events` of all shards: their server-sent events, as one stream of whole events.

    shard 0 ─▶ id: 17 ─▶ id: 17.0 ─┐
    shard 1 ─▶ id: 17 ─▶ id: 17.1 ─┼─▶ the client; comments of shard 0 alone keep the stream alive
    …                              ┘

The number of an event is that of its shard, which the id contains. If a shard ends, so does the stream, without its end
mark: a client that reconnects does not miss what happens elsewhere for long. A client that does not read holds up all
shards, which then drop events, and report how many, as each would for its own client.
"""

import asyncio
import re
from functools import partial
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from miniqueue.server.asgi.request import until_gone
from miniqueue.server.shards.http.door import Handler
from miniqueue.server.shards.http.owners import Answer, Owners

_ID: Final = re.compile(rb"^id: (\d+)$", re.MULTILINE)
_END: Final = b"\n\n"
_COMMENT: Final = b":"


def event_routes(owners: Owners) -> dict[tuple[str, str], Handler]:
    """Return the handler by method and route."""
    return {("GET", "/events"): partial(_listen, owners)}


async def _listen(owners: Owners, scope: Scope, receive: Receive, send: Send) -> None:
    await _Merged(owners, send).run(scope, receive)


class _Merged:
    """One merged stream."""

    def __init__(self, owners: Owners, send: Send) -> None:
        self._owners = owners
        self._send = send
        self._starts: dict[int, Message] = {}
        self._all_started = asyncio.Event()
        self._sending = asyncio.Lock()
        self._has_begun = False
        self._is_ended = False

    async def run(self, scope: Scope, receive: Receive) -> None:
        """Send the events of all shards until the client, or one of them, ends the stream; raises MiniqueueError."""
        parts = [asyncio.create_task(self._part(shard, scope)) for shard in self._owners.numbers]
        leaving = asyncio.create_task(until_gone(receive))
        tasks = [*parts, leaving]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done() and not self._has_begun and not leaving.done():
                    await self._refuse(part, scope, receive)
                    return
            if self._is_ended and self._has_begun:
                async with self._sending:
                    await self._send({"type": "http.response.body", "body": b""})
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _refuse(self, part: "asyncio.Task[Answer | None]", scope: Scope, receive: Receive) -> None:
        """Reply the error of a shard."""
        answer = part.result()
        if answer is not None:
            await answer.reply()(scope, receive, self._send)

    async def _part(self, shard: int, scope: Scope) -> Answer | None:
        """Pass the events of a shard on; return its answer if it is not a stream, or raise MiniqueueError."""
        part = _Part(shard, self)
        never = asyncio.Event()

        async def receive() -> Message:
            if part.has_asked:
                await never.wait()
            part.has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}

        await self._owners.pass_on(shard, scope, receive, part.send)
        self._is_ended = part.is_ended
        return part.answer()

    async def begin(self, shard: int, start: Message) -> None:
        """Begin the reply when all shards have begun theirs."""
        self._starts[shard] = start
        if len(self._starts) < len(self._owners.numbers):
            await self._all_started.wait()
            return
        self._has_begun = True
        await self._send(start)
        self._all_started.set()

    async def pass_events(self, events: bytes) -> None:
        """Send whole events."""
        async with self._sending:
            await self._send({"type": "http.response.body", "body": events, "more_body": True})


class _Part:
    """The stream of one shard."""

    def __init__(self, shard: int, merged: _Merged) -> None:
        self._shard = shard
        self._merged = merged
        self._rest = b""
        self._refusal: Message | None = None
        self._body: list[bytes] = []
        self.has_asked = False
        self.is_ended = False

    async def send(self, message: Message) -> None:
        """Accept a part of the reply of the shard."""
        if message["type"] != "http.response.body":
            if message["status"] == 200:
                await self._merged.begin(self._shard, message)
            else:
                self._refusal = message
            return
        self.is_ended = not message.get("more_body", False)
        if self._refusal is not None:
            self._body.append(message["body"])
            return
        whole, end, rest = (self._rest + message["body"]).rpartition(_END)
        self._rest = rest
        if end and (events := self._shown(whole + end)):
            await self._merged.pass_events(events)

    def _shown(self, events: bytes) -> bytes:
        """Return events with the number of the shard in their ids; comments only of shard 0."""
        if self._shard:
            events = b"".join(each + _END for each in events.split(_END)[:-1] if each != _COMMENT)
        return _ID.sub(rb"id: \1.%d" % self._shard, events)

    def answer(self) -> Answer | None:
        """Return the reply of the shard if it is not a stream."""
        if self._refusal is None:
            return None
        return Answer(self._refusal["status"], self._refusal["headers"], b"".join(self._body))
