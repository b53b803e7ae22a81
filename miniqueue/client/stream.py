"""One request and its response, both of which may go on at the same time."""

import asyncio
from typing import Protocol

from miniqueue.errors import ClientError


class StreamOwner(Protocol):
    """What a stream needs of its connection."""

    def send(self, stream: "Stream") -> None:
        """Send of `stream.unsent` what the windows take, and the end when it is due."""
        ...

    def give_back(self, stream_id: int, size_bytes: int) -> None:
        """Let the server send as much more."""
        ...

    def abandon(self, stream: "Stream") -> None:
        """Tell the server that nobody cares any more."""
        ...


class Stream:
    """Bytes in, bytes out; the window opens as the reader reads, so the server waits for a slow one.

    One task writes, one reads.
    """

    __slots__ = (
        "_chunks",
        "_owner",
        "_reader",
        "_unread_bytes",
        "_writer",
        "error",
        "id",
        "is_ending",
        "is_response_ended",
        "is_sent",
        "status",
        "unsent",
    )

    def __init__(self, owner: StreamOwner, stream_id: int) -> None:
        self.id = stream_id
        self.status: int | None = None
        self.unsent = bytearray()
        self.is_ending = False
        self.is_sent = False
        self.is_response_ended = False
        self.error: ClientError | None = None
        self._owner = owner
        self._chunks: list[bytes] = []
        self._unread_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing can come or go any more."""
        return self.error is not None or (self.is_sent and self.is_response_ended)

    # --- for the user of the stream ---------------------------------------------------------------------------

    def write(self, part: bytes, *, is_last: bool = False) -> None:
        """Send `part` of the request as soon as the server takes it."""
        self.unsent += part
        self.is_ending = is_last
        if self.error is None:
            self._owner.send(self)

    async def drain(self) -> None:
        """Wait until the server has taken everything; raises DisconnectedError."""
        while self.unsent:
            self._raise_error()
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    async def response(self) -> int:
        """Wait for the beginning of the response, and return its status; raises DisconnectedError."""
        while self.status is None:
            self._raise_error()
            await self._wait_for_news()
        return self.status

    async def read(self) -> bytes:
        """Return what there is of the response's body, waiting for some; nothing at its end.

        Raises DisconnectedError when the end never came.
        """
        while not self._chunks:
            if self.is_response_ended:
                return b""
            self._raise_error()
            await self._wait_for_news()
        return self._take_all()

    async def read_all(self) -> bytes:
        """Return all of the body that has not been read; raises DisconnectedError."""
        parts = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Break off what is not over, and drop what was not read; safe to call twice."""
        if not self.is_over:
            self._owner.abandon(self)
        self._take_all()  # or its part of the connection's window would be gone for all streams

    # --- for the connection -----------------------------------------------------------------------------------

    def begin_response(self, status: int) -> None:
        """Take in the status."""
        self.status = status
        self._wake_reader()

    def receive(self, part: bytes, flow_bytes: int) -> None:
        """Take in a part of the body, which took `flow_bytes` of the window; it may be empty."""
        self._unread_bytes += flow_bytes
        if part:  # nothing would look like the end
            self._chunks.append(part)
            self._wake_reader()

    def end_response(self) -> None:
        """Take in the end of the body."""
        self.is_response_ended = True
        self._wake_reader()

    def fail(self, error: ClientError) -> None:
        """Take in that there will be no more, though the end has not come."""
        self.error = error
        self._wake_reader()
        self.wake_writer()

    def wake_writer(self) -> None:
        """Let `drain` look again."""
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _take_all(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        self._owner.give_back(self.id, self._unread_bytes)
        self._unread_bytes = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _wait_for_news(self) -> None:
        self._reader = asyncio.get_running_loop().create_future()
        await self._reader

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error
