"""The frames on a tunnel, in both directions, and the protocol that reads and writes them.

    frame     size of the rest, 4 bytes │ kind, 1 byte │ content
    door ──▶  REQUEST {scope}   BODY / LAST bytes of the request   GONE
    owner ──▶ START {status, headers}   BODY / LAST bytes of the reply   or EMPTY {status, headers}   FAILED
              OFFER: the reply will have messages   ──▶ TAKE   or the door ends the tunnel: they return to their topics

A tunnel carries one request at a time; the next one can follow when both LAST frames have arrived. Each end reads no
more from its socket while frames wait, so that an upload or a reply is never in memory as a whole.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, cast

from miniqueue.errors import ProtocolError

_HEAD: Final = struct.Struct(">IB")
#: Bodies are cut into frames of this size.
PIECE_BYTES: Final = 64 << 10
#: The longest frame: the headers of a request have a limit, and a setting could be many times the default.
MAX_FRAME_BYTES: Final = 16 << 20
#: Nothing more is read from the socket while frames of this size wait.
MAX_WAITING_BYTES: Final = 128 << 10


class Kind(IntEnum):
    """The kinds of frames."""

    REQUEST = 0
    BODY = 1
    LAST = 2
    GONE = 3
    START = 4
    EMPTY = 5
    FAILED = 6
    OFFER = 7
    TAKE = 8


class Frame(NamedTuple):
    """One frame."""

    kind: Kind
    content: bytes


class TunnelEndedError(ProtocolError):
    """The process at the other end of a tunnel has ended it."""


def encode_frame(kind: Kind, content: bytes = b"") -> bytes:
    """Return a frame."""
    return _HEAD.pack(1 + len(content), kind) + content


class Frames(asyncio.Protocol):
    """One end of a tunnel.

    Args:
      opening: what is sent first.
      on_lost: called once, when the tunnel has ended.
    """

    def __init__(self, opening: bytes = b"", on_lost: Callable[["Frames"], object] = lambda _: None) -> None:
        self._opening = opening
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._input = bytearray()
        self._waiting: deque[Frame] = deque()
        self._waiting_bytes = 0
        self._is_reading = True
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._is_full = False
        self._is_lost = False

    @property
    def is_lost(self) -> bool:
        """Whether the tunnel has ended."""
        return self._is_lost

    # --- the transport ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what is sent first."""
        self._transport = cast(asyncio.Transport, transport)
        if self._opening:
            self._transport.write(self._opening)

    def data_received(self, data: bytes) -> None:
        """Cut what arrived into frames."""
        data_in = self._input
        data_in += data
        start, end = 0, len(data_in)
        while end - start >= _HEAD.size:
            size_bytes, kind = _HEAD.unpack_from(data_in, start)
            if not 0 < size_bytes <= MAX_FRAME_BYTES or kind > Kind.TAKE:
                self.abort()
                return
            next_start = start + _HEAD.size - 1 + size_bytes
            if next_start > end:
                break
            content = bytes(memoryview(data_in)[start + _HEAD.size : next_start])
            self._waiting.append(Frame(Kind(kind), content))
            self._waiting_bytes += len(content)
            start = next_start
        del data_in[:start]
        if self._waiting_bytes > MAX_WAITING_BYTES and self._is_reading and self._transport is not None:
            self._is_reading = False
            self._transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        """Make writers wait: the other end does not read."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Wake the writers that wait."""
        self._is_full = False
        self._release_writers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to whoever reads or writes."""
        if self._is_lost:
            return
        self._is_lost = True
        self._wake()
        self._release_writers()
        self._on_lost(self)

    # --- frames -----------------------------------------------------------------------------------------------

    async def read(self) -> Frame:
        """Return the next frame; raises TunnelEndedError if there is none any more. One task reads at a time."""
        while not self._waiting:
            if self._is_lost:
                raise TunnelEndedError
            reader = self._reader = asyncio.get_running_loop().create_future()
            try:
                await reader
            finally:
                if self._reader is reader:  # a task that is cancelled can end after the next one has begun to read
                    self._reader = None
        frame = self._waiting.popleft()
        self._waiting_bytes -= len(frame.content)
        if not self._is_reading and self._waiting_bytes <= MAX_WAITING_BYTES // 2 and self._transport is not None:
            self._is_reading = True
            self._transport.resume_reading()
        return frame

    def write(self, *frames: bytes) -> None:
        """Send encoded frames; without effect once the tunnel has ended."""
        if self._transport is not None and not self._is_lost:
            self._transport.write(b"".join(frames))

    async def write_body(self, body: bytes, *, is_last: bool, before: bytes = b"") -> None:
        """Send a part of a body, cut into frames, after `before`; wait while the other end does not read.

        Raises TunnelEndedError.
        """
        for start in range(0, max(1, len(body)), PIECE_BYTES):
            piece = body[start : start + PIECE_BYTES]
            is_end = is_last and start + PIECE_BYTES >= len(body)
            self.write(before, encode_frame(Kind.LAST if is_end else Kind.BODY, piece))
            before = b""
            if self._is_full or self._is_lost:
                await self._drain()

    async def _drain(self) -> None:
        while self._is_full and not self._is_lost:
            writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            try:
                await writer
            finally:
                self._writers.remove(writer)
        if self._is_lost:
            raise TunnelEndedError

    def close(self) -> None:
        """End the tunnel, after what was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the tunnel at once."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _release_writers(self) -> None:
        for writer in self._writers:
            if not writer.done():
                writer.set_result(None)
