"""One request and its response, which can be transferred at the same time."""

import asyncio
from typing import Protocol

from miniqueue_client.errors import ClientError


class StreamOwner(Protocol):
    """What a stream calls of its connection."""

    def send(self, stream: "Stream") -> None:
        """Send as much of `stream.unsent` as the windows permit, and the end of the request when it is due."""
        ...

    def give_back(self, stream_id: int, size_bytes: int) -> None:
        """Open the windows by bytes that were read, so that the server can send more."""
        ...

    def abandon(self, stream: "Stream") -> None:
        """Reset a stream, so that the server stops working on it."""
        ...


class Stream:
    """The bytes of one request and its response.

    The window opens as the reader reads, so the server waits for a slow reader. One task writes, one task reads.
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
        """Whether nothing more can be sent or received."""
        return self.error is not None or (self.is_sent and self.is_response_ended)

    # --- for the user of the stream ---------------------------------------------------------------------------

    def write(self, part: bytes, *, is_last: bool = False) -> None:
        """Queue a part of the request; it is sent as soon as the windows permit."""
        self.unsent += part
        self.is_ending = is_last
        if self.error is None:
            self._owner.send(self)

    async def drain(self) -> None:
        """Wait until everything queued is sent; raises DisconnectedError."""
        while self.unsent:
            self._raise_error()
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    async def response(self) -> int:
        """Wait for the start of the response and return its status; raises DisconnectedError."""
        while self.status is None:
            self._raise_error()
            await self._wait_for_news()
        return self.status

    async def read(self) -> bytes:
        """Return the unread bytes of the response's body, after waiting for some; empty at its end.

        Raises DisconnectedError if the body was not received completely.
        """
        while not self._chunks:
            if self.is_response_ended:
                return b""
            self._raise_error()
            await self._wait_for_news()
        return self._take_all()

    async def read_all(self) -> bytes:
        """Return the rest of the body; raises DisconnectedError."""
        parts = []
        while part := await self.read():
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        """Abort the stream unless it is over, and drop unread bytes; safe to call twice."""
        if not self.is_over:
            self._owner.abandon(self)
        self._take_all()  # which gives their part of the connection's window back to other streams

    # --- for the connection -----------------------------------------------------------------------------------

    def begin_response(self, status: int) -> None:
        """Set the status of the response."""
        self.status = status
        self._wake_reader()

    def receive(self, part: bytes, flow_bytes: int) -> None:
        """Add a part of the body, which used `flow_bytes` of the window; it can be empty."""
        self._unread_bytes += flow_bytes
        if part:  # an empty part would look like the end
            self._chunks.append(part)
            self._wake_reader()

    def end_response(self) -> None:
        """Mark the body as complete."""
        self.is_response_ended = True
        self._wake_reader()

    def fail(self, error: ClientError) -> None:
        """End the stream with an error: neither the request nor the response will be completed."""
        self.error = error
        self._wake_reader()
        self.wake_writer()

    def wake_writer(self) -> None:
        """Make `drain` check again whether everything is sent."""
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
