"""Repairs of Hypercorn 0.18.0's HTTP/2, for the faults that a queue meets every day.

    fault                                               repair
    a client with a closed window fills our memory      a full buffer makes the sender wait until it is not full
    who disconnects leaves the request's task behind    buffers are closed, so nobody waits for them to drain
    DATA after an early reply kills the connection,     DATA nobody wants is dropped and its window given back;
      and then SIGTERM does not end the process           the stream is reset without an error
    a request that is not read blocks its connection,   bodies wait without limit of frames, and the window opens
      acknowledgements of what it sends included          only as the application reads: the client waits, not we
    a reply broken off leaves the stream open           the stream is reset
    every frame is written, and encrypted, on its own   once for all that was ready at the same time
    a connection whose last stream the client reset     it is
      is not taken for idle, not even at shutdown

It overrides methods and replaces names in modules of Hypercorn, so it refuses every other version. Knows Hypercorn
and h2; does not know the applications.
"""

import asyncio
import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, cast

import h2.errors
import h2.events
import h2.exceptions
from h2.connection import ConnectionState
from hypercorn import protocol
from hypercorn.config import Config
from hypercorn.events import Event, RawData, Updated
from hypercorn.protocol import h2 as hypercorn_h2
from hypercorn.protocol.events import Body, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.typing import AppWrapper, ASGIReceiveCallable, ASGIReceiveEvent, Scope
from priority.priority import DeadlockError

HYPERCORN_VERSION = "0.18.0"

#: Of a connection: as much as all its streams may send, so that no stream takes the room of another.
CONNECTION_WINDOW_BYTES = 100 * 65_535

#: So much data makes a write, even if there is more.
MAX_UNWRITTEN_BYTES = 1 << 16


def install() -> None:
    """Make Hypercorn use the repaired classes; safe to call again.

    Raises RuntimeError when Hypercorn is not the version that was repaired.
    """
    if (found := version("hypercorn")) != HYPERCORN_VERSION:
        raise RuntimeError(f"the repairs are for hypercorn {HYPERCORN_VERSION}, found {found}")
    for module, name, repaired in (
        (hypercorn_h2, "StreamBuffer", GuardedBuffer),
        (hypercorn_h2, "HTTPStream", GuardedStream),
        (protocol, "H2Protocol", GuardedH2),
    ):
        setattr(module, name, repaired)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class GuardedBuffer(hypercorn_h2.StreamBuffer):
    """What an application has sent and the client's window does not take yet."""

    async def push(self, data: bytes) -> None:
        """Take `data`; wait while there is more than the client takes."""
        if self._complete:
            raise hypercorn_h2.BufferCompleteError
        self.buffer.extend(data)
        await self._is_empty.clear()
        if len(self.buffer) >= hypercorn_h2.BUFFER_HIGH_WATER:
            await self._paused.clear()
            await self._paused.wait()

    async def pop(self, max_length: int) -> bytes:
        """Hand out what may be sent; the sender goes on when little is left."""
        data = bytes(self.buffer[:max_length])
        del self.buffer[:max_length]
        if len(self.buffer) < hypercorn_h2.BUFFER_LOW_WATER:
            await self._paused.set()
        if not self.buffer:
            await self._is_empty.set()
        return data


@dataclass(frozen=True)
class BodyRead(StreamEvent):
    """The application has taken this much of a request's body."""

    size_bytes: int


class GuardedStream(HTTPStream):
    """A request that knows how much of its body the application has not read; so much less may the client send."""

    def __init__(self, app: AppWrapper, *arguments: Any) -> None:  # noqa: ANN401 - as upstream has them
        super().__init__(cast(AppWrapper, partial(self._run, app)), *arguments)
        self.unread_bytes = 0

    async def handle(self, event: StreamEvent) -> None:
        """Count, and pass on."""
        if isinstance(event, Body):
            self.unread_bytes += len(event.data)
        await super().handle(event)

    async def _run(self, app: AppWrapper, scope: Scope, receive: ASGIReceiveCallable, *others: Any) -> None:  # noqa: ANN401 - the same
        async def receive_and_report() -> ASGIReceiveEvent:
            message = await receive()
            if message["type"] == "http.request" and (size_bytes := len(message["body"])):
                self.unread_bytes -= size_bytes
                await self.send(BodyRead(self.stream_id, size_bytes))
            return message

        await app(scope, receive_and_report, *others)


class GuardedH2(hypercorn_h2.H2Protocol):
    """One HTTP/2 connection."""

    def __init__(self, app: AppWrapper, config: Config, *arguments: Any) -> None:  # noqa: ANN401 - as upstream has them
        super().__init__(app, config, *arguments)
        self.config = copy.copy(config)
        self.config.max_app_queue_size = 0  # no limit: the window is the limit
        self._unwritten_bytes = 0

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        """Begin the connection."""
        await super().initiate(headers, settings)
        increment_bytes = CONNECTION_WINDOW_BYTES - self.connection.inbound_flow_control_window
        self.connection.increment_flow_control_window(increment_bytes)
        await self._flush()

    async def handle(self, event: Event) -> None:
        """Take in what came from the client."""
        if not (self.closed and isinstance(event, RawData)):
            await super().handle(event)

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
            self._unwritten_bytes += len(self.stream_buffers[stream_id].buffer)
            await self._send_data(stream_id)
            if self._unwritten_bytes >= MAX_UNWRITTEN_BYTES:
                await self._write()

    async def stream_send(self, event: StreamEvent) -> None:
        """Take in what came from an application."""
        if isinstance(event, BodyRead):
            self._open_window(event.stream_id, event.size_bytes)
            await self._flush()
        elif isinstance(event, StreamClosed) and _is_being_cancelled():
            await self._close_stream(event.stream_id)  # and no new task to watch for idleness: none can begin now
        else:
            await super().stream_send(event)

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:  # one by one: a request may be answered between two of its events
            if isinstance(event, h2.events.DataReceived):
                await self._handle_data(event)
            else:
                await super()._handle_events([event])
            if isinstance(event, h2.events.StreamReset) and not self.closed:
                await self.send(Updated(idle=self.idle))
        await self._flush()

    async def _handle_data(self, event: h2.events.DataReceived) -> None:
        stream = self.streams.get(event.stream_id)
        is_counted = isinstance(stream, GuardedStream)
        unwanted_bytes = event.flow_controlled_length - (len(event.data) if is_counted else 0)
        if unwanted_bytes:
            self._open_window(event.stream_id, unwanted_bytes)
        if stream is not None and event.data:
            await stream.handle(Body(stream_id=event.stream_id, data=event.data))

    async def _close_stream(self, stream_id: int) -> None:
        """Forget a request: it was answered, its client reset it, or the connection has ended."""
        stream = self.streams.get(stream_id)
        if isinstance(stream, GuardedStream) and stream.unread_bytes:
            self._open_window(stream_id, stream.unread_bytes)
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None and not buffer.complete:
            self._reset(stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
            await buffer.close()
            self.priority.unblock(stream_id)  # `_send_data` finds the stream closed, and forgets it
            await self.has_data.set()
        await super()._close_stream(stream_id)

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers and self._is_open(stream_id):
            await self._write()  # curl 7.88 forgets a reply that comes in one piece with the reset
            # All is sent; the rest of the request is not wanted.
            self._reset(stream_id, h2.errors.ErrorCodes.NO_ERROR)
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

    def _reset(self, stream_id: int, code: h2.errors.ErrorCodes) -> None:
        if self._is_open(stream_id):
            with suppress(h2.exceptions.ProtocolError):  # the connection has ended
                self.connection.reset_stream(stream_id, code)

    def _is_open(self, stream_id: int) -> bool:
        stream = self.connection.streams.get(stream_id)
        return stream is not None and not stream.closed

    def _open_window(self, stream_id: int, size_bytes: int) -> None:
        with suppress(h2.exceptions.ProtocolError):  # the connection has ended
            self.connection.acknowledge_received_data(size_bytes, stream_id)
