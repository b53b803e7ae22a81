"""One HTTP/2 connection: `h2` between a transport and streams.

All that streams send in one iteration of the event loop is sent with one write. Knows HTTP/2; does not know miniqueue.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from miniqueue_client.errors import ClientError, DisconnectedError
from miniqueue_client.http2.stream import Stream

Headers: TypeAlias = list[tuple[bytes, bytes]]

#: Flow-control window of the connection: 100 default windows of a stream, so that unread streams do not block others.
WINDOW_BYTES = 100 * 65_535
#: How long the server may take to close its side of the connection.
CLOSE_SECONDS = 1.0


class Connection(asyncio.Protocol):
    """Begins streams and transfers their bytes."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
            validate_inbound_headers=False,
        )
        self._h2 = h2.connection.H2Connection(config)
        self._transport: asyncio.Transport
        self._streams: dict[int, Stream] = {}
        self._lost: ClientError | None = None
        self._is_flush_due = False
        self._is_settled = asyncio.Event()
        self._closed = asyncio.get_running_loop().create_future()
        self._slots: asyncio.Semaphore
        self._handlers: Mapping[type, Callable[[Any], None]] = MappingProxyType(
            {
                h2.events.ResponseReceived: self._on_response,
                h2.events.DataReceived: self._on_data,
                h2.events.StreamEnded: self._on_end,
                h2.events.StreamReset: self._on_reset,
                h2.events.WindowUpdated: self._on_window,
                h2.events.RemoteSettingsChanged: self._on_settings,
                h2.events.ConnectionTerminated: self._on_goodbye,
            }
        )

    # --- for the client ---------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Wait for the server's settings, which limit the number of streams; raises DisconnectedError."""
        await self._is_settled.wait()
        if self._lost is not None:
            raise self._lost

    async def begin(self, headers: Headers) -> Stream:
        """Begin a request as soon as the server accepts another stream; raises DisconnectedError."""
        await self._slots.acquire()
        if self._lost is not None:
            self._slots.release()
            raise self._lost
        stream_id = self._h2.get_next_available_stream_id()
        self._h2.send_headers(stream_id, headers)
        self._flush_soon()
        stream = self._streams[stream_id] = Stream(self, stream_id)
        return stream

    def close(self) -> None:
        """Say goodbye, and close; streams that are not over fail."""
        if self._lost is None:
            self._h2.close_connection()
            self._flush()
            self._transport.close()
            self._lose(DisconnectedError("the connection was closed"))

    async def wait_closed(self, seconds: float = CLOSE_SECONDS) -> None:
        """Return when the connection is closed, after `close`; the server has so many seconds to answer that."""
        await asyncio.wait([self._closed], timeout=seconds)
        if not self._closed.done():
            self._transport.abort()
            await asyncio.wait([self._closed])

    # --- for the streams --------------------------------------------------------------------------------------

    def send(self, stream: Stream) -> None:
        """Send as much of `stream.unsent` as the windows permit, and the end of the request when it is due."""
        if stream.is_sent or stream.error is not None:
            return
        try:
            self._send_what_fits(stream)
        except h2.exceptions.ProtocolError:
            stream.unsent.clear()  # the server has reset the stream; its event follows
        if not stream.unsent:
            stream.wake_writer()
        self._flush_soon()

    def give_back(self, stream_id: int, size_bytes: int) -> None:
        """Open the windows by bytes that were read, so that the server can send more."""
        if self._lost is None:
            self._h2.acknowledge_received_data(size_bytes, stream_id)
            self._flush_soon()

    def abandon(self, stream: Stream) -> None:
        """Reset a stream, so that the server stops working on it."""
        self._h2.reset_stream(stream.id, h2.errors.ErrorCodes.CANCEL)
        self._flush_soon()
        stream.fail(DisconnectedError("the stream was closed"))
        self._forget_if_over(stream)

    # --- for the transport ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings, and open the window of the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_BYTES - self._h2.inbound_flow_control_window)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Handle the events in data from the server."""
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError as exc:
            self._flush()
            self._transport.close()
            self._lose(DisconnectedError(f"the server violated HTTP/2: {exc}"))
            return
        for event in events:
            handler = self._handlers.get(type(event))
            if handler is not None:
                handler(event)
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all streams, since the connection is lost."""
        self._closed.set_result(None)
        self._lose(DisconnectedError(f"the connection was lost: {exc or 'closed by the server'}"))

    # --- events -----------------------------------------------------------------------------------------------

    def _on_response(self, event: h2.events.ResponseReceived) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            stream.begin_response(int(dict(event.headers)[b":status"]))

    def _on_data(self, event: h2.events.DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        else:
            stream.receive(event.data, event.flow_controlled_length)

    def _on_end(self, event: h2.events.StreamEnded) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            stream.end_response()
            self._forget_if_over(stream)

    def _on_reset(self, event: h2.events.StreamReset) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            stream.fail(DisconnectedError(f"the server reset the stream (code {event.error_code})"))
            self._forget_if_over(stream)

    def _on_window(self, event: h2.events.WindowUpdated) -> None:
        if event.stream_id:
            self._resume([self._streams[event.stream_id]] if event.stream_id in self._streams else [])
        else:
            self._resume(list(self._streams.values()))

    def _on_settings(self, event: h2.events.RemoteSettingsChanged) -> None:
        if not self._is_settled.is_set():
            self._slots = asyncio.Semaphore(self._h2.remote_settings.max_concurrent_streams)
            self._is_settled.set()
        self._resume(list(self._streams.values()))  # the initial window may have changed

    def _resume(self, streams: list[Stream]) -> None:
        for stream in streams:
            if stream.unsent:
                self.send(stream)

    def _on_goodbye(self, event: h2.events.ConnectionTerminated) -> None:
        self._lose(DisconnectedError(f"the server ended the connection (code {event.error_code})"))
        self._transport.close()

    # --- internals ---------------------------------------------------------------------------------------------

    def _send_what_fits(self, stream: Stream) -> None:
        unsent = stream.unsent
        while unsent and (room_bytes := self._h2.local_flow_control_window(stream.id)) > 0:
            size_bytes = min(room_bytes, self._h2.max_outbound_frame_size, len(unsent))
            self._h2.send_data(stream.id, bytes(unsent[:size_bytes]))
            del unsent[:size_bytes]
        if stream.is_ending and not unsent:
            self._h2.end_stream(stream.id)
            stream.is_sent = True
            self._forget_if_over(stream)

    def _forget_if_over(self, stream: Stream) -> None:
        if stream.is_over and self._streams.pop(stream.id, None) is not None:
            self._slots.release()

    def _lose(self, error: ClientError) -> None:
        if self._lost is None:
            self._lost = error
        for stream in list(self._streams.values()):
            stream.fail(error)
            self._forget_if_over(stream)
        self._is_settled.set()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._lost is None and (outgoing := self._h2.data_to_send()):
            self._transport.write(outgoing)
