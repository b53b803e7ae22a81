"""One HTTP/2 connection of Hypercorn, with limits and repairs.

    bytes ─▶ CountedConnection ─▶ events ─▶ rejected here, or a GuardedStream and its application
    application ─▶ GuardedBuffer ─▶ send task ─▶ CountedConnection ─▶ one write for all that is ready together
    once a second: `check_deadlines` ─▶ slow requests are answered 408, reset, or disconnected

A request beyond the limits costs the client that request (REFUSED_STREAM, which is safe to repeat); a flood, slow
headers, and invalid frames cost it the connection (GOAWAY). An aborted reply resets its stream, a request whose rest is
not wanted is reset without an error, and when a connection ends, no task keeps waiting for it.

Knows Hypercorn and h2; does not know the applications.
"""

import asyncio
import copy
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h2.events
import h2.exceptions
from h2.connection import ConnectionState
from h2.errors import ErrorCodes
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import h2 as hypercorn_h2
from hypercorn.protocol.events import Body, EndBody, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.typing import AppWrapper
from priority.priority import DeadlockError

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.server.asgi.refusals import Reason
from miniqueue.server.asgi.request import ACCOUNT_KEY
from miniqueue.server.hypercorn.frames import CountedConnection
from miniqueue.server.hypercorn.limits import (
    CHECK_SECONDS,
    GOODBYE_SECONDS,
    HEADERS_SECONDS,
    LINGER_SECONDS,
    MAX_UNREAD_BYTES,
    REQUEST_BYTES,
    Stillness,
    limits_of,
)
from miniqueue.server.hypercorn.sending import GuardedBuffer, StreamRoundRobin
from miniqueue.server.hypercorn.stream import Abandoned, BodyRead, EmptyReply, GuardedStream

#: Receive window of a connection: the sum of those of all streams, so that no stream uses the space of another.
CONNECTION_WINDOW_BYTES = 100 * 65_535

#: A wasteful client waits this many times the duration of the event-loop iteration that processed its frames. So two of
#: them use a fifth of the CPU time, whatever they send, and it takes long until they are disconnected.
WAIT_FACTOR = 8
MAX_WAIT_SECONDS = 0.1

#: Maximum number of header fields of a request, including those of HTTP/2 itself, such as `:path`.
MAX_HEADER_FIELDS = 64
#: Data of this size is written even if more is ready.
MAX_UNWRITTEN_BYTES = 1 << 16
#: How many requests more, or fewer, are in progress when they are charged again.
STREAMS_IN_STEP = 8


class GuardedH2(hypercorn_h2.H2Protocol):
    """One HTTP/2 connection."""

    def __init__(self, app: AppWrapper, config: Config, *arguments: Any) -> None:  # noqa: ANN401 - upstream's signature
        # Not upstream's, which makes a connection of h2 that would be thrown away.
        self.app = app
        self.context, self.task_group, self.connection_state, self.ssl, self.client, self.server, self.send = arguments
        self.closed, self.keep_alive_requests = False, 0
        self.streams, self.stream_buffers, self.has_data = {}, {}, self.context.event_class()
        self.config = copy.copy(config)
        self.config.max_app_queue_size = 0  # unlimited: the flow-control window is the limit
        self.connection: CountedConnection = CountedConnection(
            config.h2_max_concurrent_streams, config.h2_max_header_list_size
        )
        self.priority: StreamRoundRobin = StreamRoundRobin()  # type: ignore[assignment] # has all methods that are used
        self._limits = limits_of(config)
        self._unwritten_bytes = 0
        self._abandoned_count = 0
        self._is_ending = False
        self._incomplete = Stillness()
        self._account: MemoryAccount = self.connection_state.get(ACCOUNT_KEY) or self._limits.memory.connect("?")
        self._many_streams, self._few_streams = STREAMS_IN_STEP, 0  # beyond which the requests are charged again

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        """Begin the connection, and report it as idle."""
        await super().initiate(headers, settings)
        increment_bytes = CONNECTION_WINDOW_BYTES - self.connection.inbound_flow_control_window
        self.connection.increment_flow_control_window(increment_bytes)
        await self._flush()
        await self.send(Updated(idle=True))

    # --- receiving ----------------------------------------------------------------------------------------------

    async def handle(self, event: Event) -> None:
        """Process received bytes, a few frames at a time; yield to other tasks in between."""
        if not isinstance(event, RawData):
            await super().handle(event)
            return
        await self._take_slowly(event.data)
        while self.connection.frames.may_be_more and not (self.closed or self._is_ending):
            await self._take_slowly(b"")

    async def _take_slowly(self, data: bytes) -> None:
        frames, turns = self.connection.frames, self._limits.frame_turns
        if turns.is_over:
            await turns.wait()
        begun_at, frame_count = time.monotonic(), frames.frame_count
        await self._take(data)
        turns.used(frames.frame_count - frame_count)
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
                # A case that neither we nor Hypercorn handle: it costs the client its connection.
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
        """End the connection with a GOAWAY frame, which h2 has already prepared if `code` is None."""
        self._is_ending = True
        self._limits.refusals.count(reason, self.client)
        if code is not None:
            with suppress(h2.exceptions.ProtocolError):  # the connection has ended
                self.connection.close_connection(code)
        with suppress(TimeoutError):  # the client does not read
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._write()
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self.context.terminated.wait()
        await self.send(Closed())

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:  # one at a time: a request may be answered between two of its events
            if isinstance(event, h2.events.DataReceived):
                await self._handle_data(event)
            elif isinstance(event, h2.events.RequestReceived):
                await self._handle_request(event)
            elif isinstance(event, h2.events.StreamReset):
                await self._handle_reset(event)
            elif not isinstance(event, h2.events.PriorityUpdated):  # RFC 9113, 5.3.2: must be ignored
                await super()._handle_events([event])
        await self._flush()
        if self._has_left():
            await self._close_after_client()

    def _has_left(self) -> bool:
        """Whether the client has sent GOAWAY and received all its replies."""
        return self.connection.is_client_leaving and not self.streams

    async def _close_after_client(self) -> None:
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
        elif self._limits.memory.over_count and self._has_no_memory():
            await self._refuse(request, Reason.MEMORY, ErrorCodes.REFUSED_STREAM)
        elif len(request.headers) > MAX_HEADER_FIELDS:
            await self._end(Reason.LARGE_HEADERS, ErrorCodes.ENHANCE_YOUR_CALM)
        elif not _is_servable(request.headers):
            await self._refuse(request, Reason.BAD_REQUEST, ErrorCodes.PROTOCOL_ERROR)
        else:
            await super()._handle_events([request])
            if len(self.streams) > self._many_streams:
                self._charge_streams()

    def _has_no_memory(self) -> bool:
        """Whether a request is not even answered: the connection uses too much, or its client is a stranger."""
        return self._account.is_over or self._limits.is_memory_full or self._account.owner.is_crowd_over

    def _charge_streams(self) -> None:
        """Charge the requests in progress, now and when there are some more, or fewer."""
        count = len(self.streams)
        self._many_streams = count + STREAMS_IN_STEP
        self._few_streams = max(count - STREAMS_IN_STEP, min(count, 1))
        self._account.put(Purpose.REQUESTS, (count + self._abandoned_count) * REQUEST_BYTES)

    def _is_crowded(self) -> bool:
        """Whether there are too many streams, or too many requests in progress whose streams have ended."""
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
            self.connection.frames.tokens -= 1  # h2 had to reset it
        self._abandon(event.stream_id)
        await super()._handle_events([event])
        if not self.closed:
            await self.send(Updated(idle=self.idle))

    # --- sending ------------------------------------------------------------------------------------------------

    async def send_task(self) -> None:
        """Send data as the windows allow, until the connection ends in any way."""
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
        except DeadlockError:  # no stream has both data and window
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
        """Process an event of an application."""
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
            # Without upstream's new task that watches for idleness: no task can begin now.
            await self._close_stream(event.stream_id)
        elif isinstance(event, Body) and len(event.data) >= MAX_UNREAD_BYTES:
            # The buffer and the application have it, until the client's windows have let through all but a rest.
            size_bytes = 2 * len(event.data)
            self._account.add(Purpose.OUTPUT, size_bytes)
            try:
                await super().stream_send(event)
            finally:
                self._account.add(Purpose.OUTPUT, -size_bytes)
        else:
            await super().stream_send(event)

    async def _send_empty(self, reply: EmptyReply) -> None:
        """Send a reply in one frame, if its request still waits for one."""
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
        """End a reply whose data has all been sent, without waking the send task."""
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
        """Count a request whose application continues for a while although its stream has ended."""
        stream = self.streams.get(stream_id)
        if isinstance(stream, GuardedStream):
            stream.is_abandoned = True
            self._abandoned_count += 1

    async def _close_stream(self, stream_id: int) -> None:
        """Forget a request that was answered, was reset by its client, or whose connection has ended."""
        stream = self.streams.get(stream_id)
        if isinstance(stream, GuardedStream) and (held_bytes := stream.unread_bytes + stream.unreported_bytes):
            self._open_window(stream_id, held_bytes)
        buffer = self.stream_buffers.get(stream_id)
        if buffer is not None and not buffer.complete:
            self._reset(stream_id, ErrorCodes.INTERNAL_ERROR)
            await buffer.close()
            self.priority.unblock(stream_id)  # so that `_send_data` finds it closed and forgets it
            await self.has_data.set()
        await super()._close_stream(stream_id)
        if len(self.streams) < self._few_streams:
            self._charge_streams()

    async def _send_data(self, stream_id: int) -> None:
        await super()._send_data(stream_id)
        if stream_id not in self.stream_buffers:
            await self._refuse_rest(stream_id)

    async def _refuse_rest(self, stream_id: int) -> None:
        """Reset a request whose reply was sent before the request ended."""
        if self._is_open(stream_id):
            await self._write()  # curl 7.88 loses a reply that arrives together with the reset
            self._reset(stream_id, ErrorCodes.NO_ERROR)
            await self._flush()

    async def _flush(self) -> None:
        """Wake the send task, which writes once for many frames; write a GOAWAY frame at once."""
        if self.connection.state_machine.state is ConnectionState.CLOSED:
            await self._write()
        else:
            await self.has_data.set()

    async def _write(self) -> None:
        self._unwritten_bytes = 0
        if not self.closed:  # otherwise the transport may not exist anymore
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

    # --- deadlines ----------------------------------------------------------------------------------------------

    def check_deadlines(self, now_seconds: float) -> None:
        """Refill the tokens, and end requests that take too long; called once a second."""
        frames = self.connection.frames
        frames.refill(CHECK_SECONDS)
        if self.closed or self._is_ending:
            return
        if self._has_left():
            self.task_group.spawn(self._close_after_client)
            return
        mark = frames.frame_count if frames.is_incomplete else None
        if self._incomplete.age(mark, now_seconds) >= HEADERS_SECONDS:
            self.task_group.spawn(self._end, Reason.SLOW_HEADERS, ErrorCodes.ENHANCE_YOUR_CALM)
            return
        for stream_id, stream in list(self.streams.items()):
            if isinstance(stream, GuardedStream) and stream.is_body_late(now_seconds):
                self._limits.refusals.count(Reason.SLOW_BODY, self.client)
                self.task_group.spawn(stream.answer_early, HTTPStatus.REQUEST_TIMEOUT)
            elif self._is_stalled(stream_id, now_seconds):
                self._limits.refusals.count(Reason.SLOW_READER, self.client)
                self.task_group.spawn(self._reset_slow, stream_id)

    def _is_stalled(self, stream_id: int, now_seconds: float) -> bool:
        buffer = self.stream_buffers.get(stream_id)
        return isinstance(buffer, GuardedBuffer) and buffer.stalled_seconds(now_seconds) >= self._limits.stall_seconds

    async def _reset_slow(self, stream_id: int) -> None:
        self._abandon(stream_id)
        self._reset(stream_id, ErrorCodes.CANCEL)
        await self._close_stream(stream_id)
        await self.send(Updated(idle=self.idle))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _is_servable(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether this is a request for a path; h2 has checked that no pseudo-header field is repeated."""
    fields = dict(headers)
    method, path = fields[b":method"], fields.get(b":path", b"")
    return method != b"CONNECT" and method.isascii() and path.isascii()
