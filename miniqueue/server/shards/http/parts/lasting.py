"""A request to a part that lasts: its body is fed, and its reply is read, piece by piece.

    feed ─▶ a piece waits ─▶ the owner            the owner ─▶ up to 128 KiB wait ─▶ read

Whoever feeds waits while the owner does not read, and the owner waits while what it sends is not read.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Message, Receive, Send

from miniqueue.errors import MiniqueueError
from miniqueue.server.shards.http.frames import MAX_WAITING_BYTES
from miniqueue.server.shards.http.owners import Answer

#: Maximum number of short pieces that wait, each at most a command of 16 KiB.
MAX_PIECES: Final = 32
#: Passes a request on until its end; raises MiniqueueError before the reply has begun.
PassOn = Callable[[Receive, Send], Awaitable[None]]


class LastingRequest:
    """One request to a part, from its construction to `close`.

    Args:
      pass_on: passes it on.
      on_over: called when its reply has ended, whole or not.

    Attributes:
      error: why there is no reply.
      is_whole: whether the reply has its end.
      is_over: whether nothing more comes.
    """

    def __init__(self, pass_on: PassOn, on_over: Callable[["LastingRequest"], object]) -> None:
        self.error: MiniqueueError | None = None
        self.is_whole = self.is_over = False
        self._on_over = on_over
        self._start: Message | None = None
        self._pieces: list[bytes] = []
        self._is_fed = self._is_sent = False
        self._came: list[bytes] = []
        self._came_bytes = 0
        self._has_piece, self._has_room = asyncio.Event(), asyncio.Event()
        self._has_news, self._is_read = asyncio.Event(), asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(pass_on))

    async def _run(self, pass_on: PassOn) -> None:
        try:
            await pass_on(self._receive, self._send)
        except MiniqueueError as exc:
            self.error = exc
        finally:
            self.is_over = True
            self._has_news.set()
            self._has_room.set()
            self._on_over(self)

    # --- for the owner ----------------------------------------------------------------------------------------

    async def _receive(self) -> Message:
        while not (self._pieces or self._is_fed):
            self._has_piece.clear()
            await self._has_piece.wait()
        if self._is_sent:
            await asyncio.Event().wait()  # until the request is closed
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._is_sent = self._is_fed
        self._has_room.set()
        return {"type": "http.request", "body": piece, "more_body": not self._is_sent}

    async def _send(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            self._start = message
        else:
            self.is_whole = not message.get("more_body", False)
            self._came.append(message["body"])
            self._came_bytes += len(message["body"])
        self._has_news.set()
        while self._came_bytes > MAX_WAITING_BYTES:
            self._is_read.clear()
            await self._is_read.wait()

    # --- for the door -----------------------------------------------------------------------------------------

    async def begun(self) -> Answer | None:
        """Wait until the reply has begun; return it as a whole if it is an error. Raises the error that there is."""
        while self._start is None and not self.is_over:
            await self._news()
        if self.error is not None:
            raise self.error
        return await self.refusal()

    async def refusal(self) -> Answer | None:
        """Return the reply, once it is whole, if it is an error."""
        if self._start is None or self._start["status"] < 400:
            return None
        while not self.is_over:
            await self._news()
        return Answer(self._start["status"], self._start["headers"], b"".join(self._came))

    async def feed(self, piece: bytes) -> None:
        """Send a piece of the body; wait while an earlier piece waits. Without effect once the request is over."""
        while self._pieces and not self.is_over:
            self._has_room.clear()
            await self._has_room.wait()
        self.feed_now(piece)

    def feed_now(self, piece: bytes) -> None:
        """Send a short piece of the body without waiting; see `drain`."""
        self._pieces.append(piece)
        self._has_piece.set()

    @property
    def is_full(self) -> bool:
        """Whether many short pieces wait, as the owner does not read."""
        return len(self._pieces) > MAX_PIECES and not self.is_over

    async def drain(self) -> None:
        """Wait while the request is full."""
        while self.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    def end_feed(self) -> None:
        """Send the end of the body."""
        self._is_fed = True
        self._has_piece.set()

    async def read(self) -> bytes:
        """Return what has come of the body of the reply; b"" if nothing more comes."""
        while not self._came_bytes and not self.is_over:
            await self._news()
        came, self._came, self._came_bytes = b"".join(self._came), [], 0
        self._is_read.set()
        return came

    async def _news(self) -> None:
        self._has_news.clear()
        await self._has_news.wait()

    async def close(self) -> None:
        """End the request: for its owner, the client has gone."""
        self._on_over = _nothing
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _nothing(_: object) -> None:
    """Do nothing: the request is closed."""
