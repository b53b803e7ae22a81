"""One HTTP/2 connection of Hypercorn, with limits; `http2_sending` is the half of it that sends.

    bytes ─▶ CountedConnection ─▶ events ─▶ refused here, or a GuardedStream and its application
    once a second: `look` ─▶ slow ones are answered 408, reset, or sent away

A request beyond the limits costs its client that request (REFUSED_STREAM, which is safe to repeat); a flood, slow
headers and broken framing cost it the connection (GOAWAY). Knows Hypercorn and h2; does not know the applications.
"""

import asyncio
import time
from contextlib import suppress
from typing import Any

import h2.events
import h2.exceptions
from h2.errors import ErrorCodes
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import Body
from hypercorn.typing import AppWrapper

from miniqueue.server.h2guard.buffer import GuardedBuffer
from miniqueue.server.h2guard.deadlines import (
    GOODBYE_SECONDS,
    HEADERS_SECONDS,
    LINGER_SECONDS,
    LOOK_SECONDS,
    Stillness,
)
from miniqueue.server.h2guard.http2_sending import SendingH2
from miniqueue.server.h2guard.limits import limits_of
from miniqueue.server.h2guard.stream import GuardedStream
from miniqueue.server.refusals import Reason

#: Of a connection: as much as all its streams may send, so that no stream takes the room of another.
CONNECTION_WINDOW_BYTES = 100 * 65_535

#: A wasteful client waits so many times as long as the turn of the loop took in which its frames were taken in: so two
#: of them take a fifth of the processor's time, whatever they send, and it takes them long to be sent away.
WAIT_FACTOR = 8
MAX_WAIT_SECONDS = 0.1

#: Of a request, those of HTTP/2 itself, such as `:path`, included.
MAX_HEADER_FIELDS = 64


class GuardedH2(SendingH2):
    """One HTTP/2 connection."""

    def __init__(self, app: AppWrapper, config: Config, *arguments: Any) -> None:  # noqa: ANN401 - as upstream has them
        super().__init__(app, config, *arguments)
        self._limits = limits_of(config)
        self._is_ending = False
        self._incomplete = Stillness()

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        """Begin the connection, which is idle."""
        await super().initiate(headers, settings)
        increment_bytes = CONNECTION_WINDOW_BYTES - self.connection.inbound_flow_control_window
        self.connection.increment_flow_control_window(increment_bytes)
        await self._flush()
        await self.send(Updated(idle=True))

    # --- what comes from the client -----------------------------------------------------------------------------

    async def handle(self, event: Event) -> None:
        """Take in what came from the client, some frames at a time; let others have their turn in between."""
        if not isinstance(event, RawData):
            await super().handle(event)
            return
        await self._take_slowly(event.data)
        while self.connection.frames.may_be_more and not (self.closed or self._is_ending):
            await self._take_slowly(b"")

    async def _take_slowly(self, data: bytes) -> None:
        frames = self.connection.frames
        begun_at = time.monotonic()
        await self._take(data)
        if frames.may_be_more or frames.is_wasteful:
            await asyncio.sleep(0)
        if frames.is_wasteful and not self._is_ending:
            await asyncio.sleep(min(WAIT_FACTOR * (time.monotonic() - begun_at), MAX_WAIT_SECONDS))

    async def _take(self, data: bytes) -> None:
        if not (self.closed or self._is_ending):
            try:
                await self._handle_events(self.connection.receive_data(data))
                if self.connection.frames.tokens < 0:
                    await self._end(Reason.FLOOD, ErrorCodes.ENHANCE_YOUR_CALM)
            except h2.exceptions.ProtocolError as error:
                await self._end(self._reason_of(error))
            except Exception:
                # A client has found something that neither we nor Hypercorn have thought of: it costs its connection.
                await self._end(Reason.INTERNAL_ERROR, ErrorCodes.INTERNAL_ERROR)

    def _reason_of(self, error: h2.exceptions.ProtocolError) -> Reason:
        if self.connection.frames.tokens < 0:
            return Reason.FLOOD
        if isinstance(error, h2.exceptions.DenialOfServiceError):
            return Reason.LARGE_HEADERS
        if isinstance(error, h2.exceptions.FrameTooLargeError):
            return Reason.LONG_FRAME
        return Reason.PROTOCOL_ERROR

    async def _end(self, reason: Reason, code: ErrorCodes | None = None) -> None:
        """End the connection; with a goodbye, which h2 has prepared when there is no `code`."""
        self._is_ending = True
        self._limits.refusals.count(reason, self.client)
        if code is not None:
            with suppress(h2.exceptions.ProtocolError):  # it has ended
                self.connection.close_connection(code)
        with suppress(TimeoutError):  # the client does not read
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._write()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self.context.terminated.wait()
        await self.send(Closed())

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:  # one by one: a request may be answered between two of its events
            if isinstance(event, h2.events.DataReceived):
                await self._handle_data(event)
            elif isinstance(event, h2.events.RequestReceived):
                await self._handle_request(event)
            elif isinstance(event, h2.events.StreamReset):
                await self._handle_reset(event)
            elif not isinstance(event, h2.events.PriorityUpdated):  # RFC 9113 5.3.2: to be ignored
                await super()._handle_events([event])
        await self._flush()
        if self._has_left():
            await self._close_behind_client()

    def _has_left(self) -> bool:
        """Whether the client has said goodbye, and has all its replies."""
        return self.connection.is_client_leaving and not self.streams

    async def _close_behind_client(self) -> None:
        await self._write()
        await self.send(Closed())

    async def _handle_data(self, event: h2.events.DataReceived) -> None:
        stream = self.streams.get(event.stream_id)
        is_counted = isinstance(stream, GuardedStream)
        unwanted_bytes = event.flow_controlled_length - (len(event.data) if is_counted else 0)
        if unwanted_bytes:
            self._open_window(event.stream_id, unwanted_bytes)
        if event.data and stream is not None:
            await stream.handle(Body(stream_id=event.stream_id, data=event.data))
        elif not event.data and event.stream_ended is None:
            self.connection.frames.tokens -= 1

    async def _handle_request(self, request: h2.events.RequestReceived) -> None:
        if self.context.terminated.is_set():
            await self._refuse(request, Reason.DRAINING, ErrorCodes.REFUSED_STREAM)
        elif self._is_crowded():
            await self._refuse(request, Reason.TOO_MANY_STREAMS, ErrorCodes.REFUSED_STREAM)
        elif len(request.headers) > MAX_HEADER_FIELDS:
            await self._end(Reason.LARGE_HEADERS, ErrorCodes.ENHANCE_YOUR_CALM)
        elif not _is_servable(request.headers):
            await self._refuse(request, Reason.BAD_REQUEST, ErrorCodes.PROTOCOL_ERROR)
        else:
            await super()._handle_events([request])

    def _is_crowded(self) -> bool:
        """Tell whether there are too many streams, or too many requests whose streams are gone."""
        limit = self.config.h2_max_concurrent_streams
        if len(self.streams) + self._abandoned_count < limit:
            return False
        return self.connection.count_requests() > limit or len(self.streams) + self._abandoned_count >= 2 * limit

    async def _refuse(self, request: h2.events.RequestReceived, reason: Reason, code: ErrorCodes) -> None:
        self._limits.refusals.count(reason, self.client)
        self.connection.frames.tokens -= 1
        self._reset(request.stream_id, code)

    async def _handle_reset(self, event: h2.events.StreamReset) -> None:
        if not event.remote_reset:
            self.connection.frames.tokens -= 1  # h2 had to
        self._abandon(event.stream_id)
        await super()._handle_events([event])
        if not self.closed:
            await self.send(Updated(idle=self.idle))

    # --- what takes too long ------------------------------------------------------------------------------------

    def look(self, now_seconds: float) -> None:
        """Once a second: bring in the time, and end what has taken too much of it."""
        frames = self.connection.frames
        frames.refill(LOOK_SECONDS)
        if self.closed or self._is_ending:
            return
        if self._has_left():
            self.task_group.spawn(self._close_behind_client)
            return
        mark = frames.frame_count if frames.is_incomplete else None
        if self._incomplete.age(mark, now_seconds) >= HEADERS_SECONDS:
            self.task_group.spawn(self._end, Reason.SLOW_HEADERS, ErrorCodes.ENHANCE_YOUR_CALM)
            return
        for stream_id, stream in list(self.streams.items()):
            if isinstance(stream, GuardedStream) and stream.is_body_late(now_seconds):
                self._limits.refusals.count(Reason.SLOW_BODY, self.client)
                self.task_group.spawn(stream.answer_late)
            elif self._is_stalled(stream_id, now_seconds):
                self._limits.refusals.count(Reason.SLOW_READER, self.client)
                self.task_group.spawn(self._cut_off, stream_id)

    def _is_stalled(self, stream_id: int, now_seconds: float) -> bool:
        buffer = self.stream_buffers.get(stream_id)
        return isinstance(buffer, GuardedBuffer) and buffer.stalled_seconds(now_seconds) >= self._limits.stall_seconds

    async def _cut_off(self, stream_id: int) -> None:
        self._abandon(stream_id)
        self._reset(stream_id, ErrorCodes.CANCEL)
        await self._close_stream(stream_id)
        await self.send(Updated(idle=self.idle))


def _is_servable(headers: list[tuple[bytes, bytes]]) -> bool:
    """Tell whether this is a request for a path; h2 has seen to it that no field of HTTP/2 comes twice."""
    fields = dict(headers)
    method, path = fields[b":method"], fields.get(b":path", b"")
    return method != b"CONNECT" and method.isascii() and path.isascii()
