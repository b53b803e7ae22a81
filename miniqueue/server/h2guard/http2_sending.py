"""How an HTTP/2 connection of Hypercorn sends, and forgets what is done; `http2` adds what it takes in.

    application ─▶ GuardedBuffer ─▶ send task ─▶ CountedConnection ─▶ one write for all that is ready together

A reply that is broken off resets its stream, a request that nobody wants to the end is reset without an error, and a
connection that ends leaves nobody waiting. Knows Hypercorn and h2; does not know the applications.
"""

import asyncio
import copy
from contextlib import suppress
from typing import Any

import h2.exceptions
from h2.connection import ConnectionState
from h2.errors import ErrorCodes
from hypercorn.config import Config
from hypercorn.protocol import h2 as hypercorn_h2
from hypercorn.protocol.events import EndBody, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.typing import AppWrapper
from priority.priority import DeadlockError

from miniqueue.server.h2guard.frames import CountedConnection
from miniqueue.server.h2guard.stream import Abandoned, BodyRead, EmptyReply, GuardedStream
from miniqueue.server.h2guard.turns import Turns

#: So much data makes a write, even if there is more.
MAX_UNWRITTEN_BYTES = 1 << 16


class SendingH2(hypercorn_h2.H2Protocol):
    """One HTTP/2 connection, as far as it sends."""

    def __init__(self, app: AppWrapper, config: Config, *arguments: Any) -> None:  # noqa: ANN401 - as upstream has them
        super().__init__(app, config, *arguments)
        self.config = copy.copy(config)
        self.config.max_app_queue_size = 0  # no limit: the window is the limit
        self.connection: CountedConnection = CountedConnection(
            config.h2_max_concurrent_streams, config.h2_max_header_list_size
        )
        self.priority: Turns = Turns()  # type: ignore[assignment] # all of a tree that is used
        self._unwritten_bytes = 0
        self._abandoned_count = 0

    async def send_task(self) -> None:
        """Send what the windows take, until the connection ends, however it ends."""
        try:
            while not self.closed:
                await self._send_turn()
        finally:
            self.closed = True
            for buffer in self.stream_buffers.values():
                await buffer.close()

    async def _send_turn(self) -> None:
        try:
            stream_id = next(self.priority)
        except DeadlockError:  # every stream has nothing, or no room
            await self._write()
            await self.has_data.wait()
            await self.has_data.clear()
        else:
            buffer = self.stream_buffers[stream_id]
            waiting_bytes = len(buffer.buffer)
            self._unwritten_bytes += waiting_bytes
            await self._send_data(stream_id)
            if buffer.complete or len(buffer.buffer) < waiting_bytes:
                self.connection.frames.allow_window_updates()
            if self._unwritten_bytes >= MAX_UNWRITTEN_BYTES:
                await self._write()

    async def stream_send(self, event: StreamEvent) -> None:
        """Take in what came from an application."""
        if isinstance(event, EndBody) and self._is_all_sent(event.stream_id):
            await self._send_end(event.stream_id)
        elif isinstance(event, EmptyReply):
            await self._send_empty(event)
        elif isinstance(event, BodyRead):
            self._open_window(event.stream_id, event.size_bytes)
            await self._flush()
        elif isinstance(event, Abandoned):
            self._abandoned_count -= 1
        elif isinstance(event, StreamClosed) and _is_being_cancelled():
            await self._close_stream(event.stream_id)  # and no new task to watch for idleness: none can begin now
        else:
            await super().stream_send(event)

    async def _send_empty(self, reply: EmptyReply) -> None:
        """Send a reply in one frame, where its request still waits for one."""
        stream_id = reply.stream_id
        if self.stream_buffers.pop(stream_id, None) is None:
            return
        self.priority.remove_stream(stream_id)
        fields = [(b":status", b"%d" % reply.status), *reply.headers, *self.config.response_headers("h2")]
        with suppress(h2.exceptions.ProtocolError):  # the stream, or the connection, has ended
            self.connection.send_empty_reply(stream_id, fields)
        self.connection.frames.allow_window_updates()
        await self._flush()
        await self._refuse_rest(stream_id)

    async def _send_end(self, stream_id: int) -> None:
        """End a reply of which nothing is left to be sent: no task has to be woken for that."""
        del self.stream_buffers[stream_id]
        self.priority.remove_stream(stream_id)
        with suppress(h2.exceptions.ProtocolError):  # the stream, or the connection, has ended
            self.connection.end_stream(stream_id)
        self.connection.frames.allow_window_updates()
        await self._flush()
        await self._refuse_rest(stream_id)

    def _is_all_sent(self, stream_id: int) -> bool:
        buffer = self.stream_buffers.get(stream_id)
        return buffer is not None and not buffer.buffer

    def _abandon(self, stream_id: int) -> None:
        """Know of a request whose application goes on for a while although nobody waits for it."""
        stream = self.streams.get(stream_id)
        if isinstance(stream, GuardedStream):
            stream.is_abandoned = True
            self._abandoned_count += 1

    async def _close_stream(self, stream_id: int) -> None:
        """Forget a request: it was answered, its client reset it, or the connection has ended."""
        stream = self.streams.get(stream_id)
        if isinstance(stream, GuardedStream) and (held_bytes := stream.unread_bytes + stream.unreported_bytes):
            self._open_window(stream_id, held_bytes)
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None and not buffer.complete:
            self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)
            await buffer.close()
            self.priority.unblock(stream_id)  # `_send_data` finds the stream closed, and forgets it
            await self.has_data.set()
        await super()._close_stream(stream_id)

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers:
            await self._refuse_rest(stream_id)

    async def _refuse_rest(self, stream_id: int) -> None:
        """Want no more of a request whose reply was sent."""
        if self._is_open(stream_id):
            await self._write()  # curl 7.88 forgets a reply that comes in one piece with the reset
            self._reset(stream_id, ErrorCodes.NO_ERROR)
            await self._flush()

    async def _flush(self) -> None:
        """Leave what there is to the send task, which writes once for many; a goodbye goes at once."""
        if self.connection.state_machine.state is ConnectionState.CLOSED:
            await self._write()
        else:
            await self.has_data.set()

    async def _write(self) -> None:
        self._unwritten_bytes = 0
        if not self.closed:  # else there may be no transport any more
            await super()._flush()

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        if self._is_open(stream_id):
            with suppress(h2.exceptions.ProtocolError):  # the connection has ended
                self.connection.reset_stream(stream_id, code)

    def _is_open(self, stream_id: int) -> bool:
        stream = self.connection.streams.get(stream_id)
        return stream is not None and not stream.closed

    def _open_window(self, stream_id: int, size_bytes: int) -> None:
        with suppress(h2.exceptions.ProtocolError):  # the connection has ended
            self.connection.acknowledge_received_data(size_bytes, stream_id)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
