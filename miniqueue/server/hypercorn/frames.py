"""h2's connection, with a budget for frames that cost the server much and the client nothing.

    PING SETTINGS PRIORITY RST_STREAM GOAWAY CONTINUATION unknown, empty DATA              one token each
    a request that is rejected, a stream that is reset because of its client               one token each
    DATA for a stream that has ended     free: 16 for each stream that we have reset; then one token each
    WINDOW_UPDATE            free: 10, and 10 more per DATA frame sent, or reply without one; then one token each

A connection starts with 1,000 tokens and gets 33 new ones per second, the numbers that nghttp2 and Node.js use for
resets. Tokens are subtracted here, frame by frame, and added from outside, once a second. A client that has spent a
hundred must wait (`http2`); without tokens, the connection ends with ENHANCE_YOUR_CALM.

One read can contain thousands of small frames. They are processed in groups of `FRAMES_AT_ONCE`, so that other tasks
run in between: call `receive_data`, then `receive_data(b"")` while there `may_be_more`.

Knows h2, of which it overrides private methods; knows no clock and no sockets. Sources: RFC 9113; CVE-2023-44487 (rapid
reset), CVE-2025-8671 (resets that the client makes the server send), CVE-2019-9511 to 9518, CVE-2024-27316; Envoy's
max_inbound_window_update_frames_per_data_frame_sent.
"""

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from h2.connection import ConnectionInputs
from h2.errors import ErrorCodes
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes
from h2.stream import StreamInputs
from hyperframe.frame import (
    AltSvcFrame,
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from miniqueue.server.hypercorn.header_blocks import RememberingDecoder, RememberingEncoder

#: Tokens of a new connection, and the maximum.
BURST = 1000
TOKENS_PER_SECOND = 33
#: Number of missing tokens from which on a client must wait.
PATIENCE = 100
#: Number of free DATA frames for a stream that we have reset: the rest of its body may be on the way, up to 64 KiB.
LATE_DATA_PER_RESET = 16
_MAX_LATE_DATA = 1600
#: Number of frames processed at a time; HEADERS count twice, as a request begins with them: so up to eight requests,
#: 1 ms of CPU time, and 2 ms for their applications. Many more would let one client's read delay all others.
FRAMES_AT_ONCE = 16
WINDOW_UPDATES_PER_DATA_FRAME = 10
_MAX_WINDOW_UPDATES = 1000
#: Closed streams are forgotten when there are this many more than open ones; each uses half a KB.
SPARED_STREAMS = 16
#: Number of forgotten streams that are still known to have ended properly, if more frames arrive for them: more than a
#: client has in progress. h2 would keep 65,536 of them.
KNOWN_STREAMS = 256
#: Maximum size of the table for headers of replies, whatever the client offers: the initial size of HTTP/2. hpack
#: compares each field with each entry of the table.
MAX_TABLE_BYTES = 4096
#: Maximum size of a header block relative to its fields: Huffman codes have up to 30 bits per byte.
_MAX_EXPANSION = 4
_KNOWN_SETTINGS = frozenset(SettingCodes)
_PREFACE_BYTES = 24
#: Header of a frame: 24 bits of length, type, flags, and stream.
_HEAD = struct.Struct(">BHBBL")
_FRAME_HEAD_BYTES = _HEAD.size
#: END_STREAM and END_HEADERS.
_WHOLE = 0x1 | 0x4
#: The limit that h2 enforces: beyond our own limit, we reject a stream, while h2 would end the connection.
_MAX_STREAMS_OF_H2 = 2**31 - 1

_PRICED: Mapping[type[Frame], None] = MappingProxyType(
    dict.fromkeys(
        (
            AltSvcFrame,
            ContinuationFrame,
            ExtensionFrame,
            GoAwayFrame,
            PingFrame,
            PriorityFrame,
            RstStreamFrame,
            SettingsFrame,
            WindowUpdateFrame,
        )
    )
)


class CountedFrames(FrameBuffer):
    """The frames of one client.

    Args:
      max_block_bytes: maximum size of an encoded header block that consists of several frames.

    Attributes:
      frame_count: number of frames received so far.
      tokens: the remaining budget; below 0, the next frame ends the connection.
      free_window_updates: number of further WINDOW_UPDATE frames that cost nothing.
    """

    def __init__(self, max_block_bytes: int) -> None:
        super().__init__(server=True)
        self._max_block_bytes = max_block_bytes
        self.frame_count = 0
        self.tokens: float = BURST
        self.free_window_updates = WINDOW_UPDATES_PER_DATA_FRAME
        self._free_late_data = 0
        self._left_count = 0

    def __iter__(self) -> Self:
        """Begin a group of frames."""
        self._left_count = FRAMES_AT_ONCE
        return self

    def __next__(self) -> Frame:
        """Return the next frame of the group."""
        if self._left_count <= 0:
            raise StopIteration
        frame = super().__next__()
        self._left_count -= 2 if frame.__class__ is HeadersFrame else 1
        return frame

    @property
    def may_be_more(self) -> bool:
        """Whether complete frames may remain after the group."""
        return self._left_count <= 0 and len(self._data) >= _FRAME_HEAD_BYTES

    @property
    def is_wasteful(self) -> bool:
        """Whether the client has recently sent more useless frames than any client requires."""
        return self.tokens < BURST - PATIENCE

    @property
    def is_incomplete(self) -> bool:
        """Whether a frame, or a header block, has begun and not ended."""
        return bool(self._data or self._headers_buffer or 0 < self._preamble_len < _PREFACE_BYTES)

    @property
    def is_too_long(self) -> bool:
        """Whether the frame that has begun announces a size over the maximum."""
        data = self._data
        return len(data) >= _FRAME_HEAD_BYTES and int.from_bytes(data[:3], "big") > self.max_frame_size

    def refill(self, seconds: float) -> None:
        """Add the tokens for an elapsed time."""
        self.tokens = min(BURST, self.tokens + seconds * TOKENS_PER_SECOND)

    def allow_window_updates(self) -> None:
        """Allow free WINDOW_UPDATE frames for a DATA frame, or a reply without one."""
        if self.free_window_updates < _MAX_WINDOW_UPDATES:
            self.free_window_updates += WINDOW_UPDATES_PER_DATA_FRAME

    def allow_late_data(self) -> None:
        """Allow free DATA frames for a stream that was reset before its end."""
        self._free_late_data = min(_MAX_LATE_DATA, self._free_late_data + LATE_DATA_PER_RESET)

    def pay_for_late_data(self) -> None:
        """Count a DATA frame for a stream that has ended."""
        if self._free_late_data:
            self._free_late_data -= 1
        else:
            self.tokens -= 1

    def _update_header_buffer(self, frame: Frame | None) -> Frame | None:
        """Count a frame; h2 calls this for each frame of any type."""
        self.frame_count += 1
        if frame.__class__ in _PRICED:
            if frame.__class__ is WindowUpdateFrame and self.free_window_updates:
                self.free_window_updates -= 1
            else:
                self.tokens -= 1
            if frame.__class__ is ContinuationFrame:
                self._check_block(frame)
        if self.tokens < 0:
            raise h2.exceptions.DenialOfServiceError("too many useless frames")
        return super()._update_header_buffer(frame)

    def _check_block(self, last: ContinuationFrame) -> None:
        if sum(len(part.data) for part in self._headers_buffer) + len(last.data) > self._max_block_bytes:
            raise h2.exceptions.DenialOfServiceError("the header block is too long")


class CountedConnection(h2.connection.H2Connection):
    """The server's end of a connection.

    Args:
      max_streams: maximum number of streams, which the client is informed of; the caller must enforce it.
      max_header_bytes: maximum size of a request's headers, as HTTP/2 counts them.

    Attributes:
      is_client_leaving: whether the client has sent GOAWAY without an error: it will send no more requests.
    """

    MAX_CLOSED_STREAMS = KNOWN_STREAMS

    def __init__(self, max_streams: int, max_header_bytes: int) -> None:
        self.is_client_leaving = False
        super().__init__(config=h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.frames = self.incoming_buffer = CountedFrames(_MAX_EXPANSION * max_header_bytes)
        self.decoder = RememberingDecoder(max_header_bytes)
        self.encoder = RememberingEncoder()
        self._limits = {
            SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: max_header_bytes,
        }
        self.local_settings = h2.settings.Settings(client=False, initial_values=self._limits)
        self._sweep_at = 0  # number of streams, open or closed, at which closed ones are forgotten

    def _open_streams(self, remainder: int) -> int:
        """Forget closed streams, but not each time; return a number of streams, which need not be exact.

        h2 calls this for each request, and would visit all streams each time: if 32 requests waited for a commit
        together, each cost 430 instructions for that; now 20. h2 makes no use of the number: see `_MAX_STREAMS_OF_H2`.
        """
        if len(self.streams) < self._sweep_at:
            return len(self.streams)
        count = super()._open_streams(remainder)
        self._sweep_at = 2 * len(self.streams) + SPARED_STREAMS
        return count

    def count_requests(self) -> int:
        """Return the exact number of streams that are open for requests."""
        self._sweep_at = 0
        return self.open_inbound_streams

    def initiate_connection(self) -> None:
        """Send our settings to the client."""
        super().initiate_connection()
        allowed = {**self._limits, SettingCodes.MAX_CONCURRENT_STREAMS: _MAX_STREAMS_OF_H2}
        self.local_settings = h2.settings.Settings(client=False, initial_values=allowed)

    def send_empty_reply(self, stream_id: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Send a reply that ends with its headers, as `send_headers` does, with a tenth of the instructions.

        It does not check the fields, which are ours: the status, and a few hundred bytes with names in lower case.

        Raises ProtocolError: the stream, or the connection, has ended.
        """
        stream = self._get_stream_by_id(stream_id)
        self.state_machine.process_input(ConnectionInputs.SEND_HEADERS)
        stream.state_machine.process_input(StreamInputs.SEND_HEADERS)
        stream.state_machine.process_input(StreamInputs.SEND_END_STREAM)
        block = self.encoder.encode(fields)
        assert len(block) <= self.max_outbound_frame_size
        self._data_to_send += _HEAD.pack(len(block) >> 16, len(block) & 0xFFFF, HeadersFrame.type, _WHOLE, stream_id)
        self._data_to_send += block

    def receive_data(self, data: bytes) -> list[h2.events.Event]:  # type: ignore[override] # Hypercorn passes bytes only
        """Process received bytes; raises h2's ProtocolError, with a GOAWAY frame ready to be sent."""
        events = super().receive_data(data)
        if self.frames.is_too_long:
            self._terminate_connection(ErrorCodes.FRAME_SIZE_ERROR)
            raise h2.exceptions.FrameTooLargeError("the frame is too long")
        return events

    def _receive_headers_frame(self, frame: HeadersFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Process headers; those for a stream that has ended are useless and cost a token."""
        if frame.stream_id <= self.highest_inbound_stream_id:
            stream = self.streams.get(frame.stream_id)
            self.frames.tokens -= stream is None or stream.closed
        return super()._receive_headers_frame(frame)

    def reset_stream(self, stream_id: int, error_code: ErrorCodes | int = 0) -> None:
        """Reset a stream; raises ProtocolError if the stream, or the connection, has ended."""
        super().reset_stream(stream_id, error_code)
        self.frames.allow_late_data()

    def _handle_data_on_closed_stream(
        self, events: list[h2.events.Event], exc: h2.exceptions.StreamClosedError, frame: DataFrame
    ) -> tuple[list[Frame], list[h2.events.Event]]:
        """Drop data for a stream that has ended, such as the rest of a body after an early reply."""
        self.frames.pay_for_late_data()
        return super()._handle_data_on_closed_stream(events, exc, frame)

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Process settings; ignore those that HTTP/2 does not define, as required, while h2 would keep them."""
        settings = {code: value for code, value in frame.settings.items() if code in _KNOWN_SETTINGS}
        if (table_bytes := settings.pop(SettingCodes.HEADER_TABLE_SIZE, None)) is not None:
            table_bytes = min(table_bytes, MAX_TABLE_BYTES)
            if table_bytes != self.encoder.header_table_size:  # if set again, hpack would not announce it
                settings[SettingCodes.HEADER_TABLE_SIZE] = table_bytes
        frame.settings = settings
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Process GOAWAY; earlier requests are still answered, while h2 would send nothing more."""
        if frame.error_code != ErrorCodes.NO_ERROR:
            return super()._receive_goaway_frame(frame)
        self.is_client_leaving = True
        return [], []
