"""h2's connection, with a budget for the frames that cost us something and the client nothing.

    PING SETTINGS PRIORITY RST_STREAM GOAWAY CONTINUATION unknown, empty DATA              a token each
    a request that must be refused, a stream that must be reset for its client's fault     a token each
    WINDOW_UPDATE            free: 10, and 10 more for each DATA frame sent, or reply without one; then a token

There are 1,000 tokens at first and 33 new ones a second, the figures that nghttp2 and Node.js use for resets. The
tokens are counted down here, frame by frame; time is brought in from outside, once a second. Who has spent a hundred is
made to wait (`http2`); without tokens the connection ends with ENHANCE_YOUR_CALM.

One read may have thousands of frames, small as they can be. They are taken in by `FRAMES_AT_ONCE`, so that others have
their turn: `receive_data`, then `receive_data(b"")` for as long as there `may_be_more`.

Knows h2, of which it overrides a private method; knows no clock and no sockets. Sources: RFC 9113; CVE-2023-44487
(rapid reset), CVE-2025-8671 (resets that the server is made to send), CVE-2019-9511 to 9518, CVE-2024-27316; Envoy's
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

from miniqueue.server.h2guard.blocks import RememberingDecoder, RememberingEncoder

BURST = 1000
TOKENS_PER_SECOND = 33
PATIENCE = 100
#: Eight requests with a body, 0.6 ms of processor time; with many more, one client's read is everybody's pause.
FRAMES_AT_ONCE = 16
WINDOW_UPDATES_PER_DATA_FRAME = 10
_MAX_WINDOW_UPDATES = 1000
#: So many streams, and as many again as are open, may be closed before they are forgotten; each takes half a KB.
SPARED_STREAMS = 16
#: So many of those that are forgotten are still known to have ended in order, when more comes for them: more than a
#: client has under way. h2 would keep 65,536 of them.
KNOWN_STREAMS = 256
#: For the headers of replies, at most, whatever the client offers: what HTTP/2 begins with. hpack looks at each entry
#: of the table for each field.
MAX_TABLE_BYTES = 4096
#: How much longer a block of headers may be than its fields: Huffman's code has up to 30 bits for a byte.
_MAX_EXPANSION = 4
_KNOWN_SETTINGS = frozenset(SettingCodes)
_PREFACE_BYTES = 24
#: Of a frame: 24 bits of length, type, flags and stream.
_HEAD = struct.Struct(">BHBBL")
_FRAME_HEAD_BYTES = _HEAD.size
#: END_STREAM and END_HEADERS.
_WHOLE = 0x1 | 0x4
#: What h2 gets to know: beyond our own limit a stream is refused, while h2 would end the connection.
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
      max_block_bytes: of headers in one frame after the other, before they are taken apart.

    Attributes:
      frame_count: frames that came so far.
      tokens: what is left of the budget; below 0 the next frame ends the connection.
      free_window_updates: how many of the next WINDOW_UPDATE frames cost nothing.
    """

    def __init__(self, max_block_bytes: int) -> None:
        super().__init__(server=True)
        self._max_block_bytes = max_block_bytes
        self.frame_count = 0
        self.tokens: float = BURST
        self.free_window_updates = WINDOW_UPDATES_PER_DATA_FRAME
        self._left_count = 0

    def __iter__(self) -> Self:
        """Begin to take in some frames."""
        self._left_count = FRAMES_AT_ONCE
        return self

    def __next__(self) -> Frame:
        """Return the next of them."""
        if self._left_count <= 0:
            raise StopIteration
        frame = super().__next__()
        self._left_count -= 1
        return frame

    @property
    def may_be_more(self) -> bool:
        """Whether there may be whole frames that were not taken in."""
        return self._left_count <= 0 and len(self._data) >= _FRAME_HEAD_BYTES

    @property
    def is_wasteful(self) -> bool:
        """Whether more came lately than any client needs that served no request."""
        return self.tokens < BURST - PATIENCE

    @property
    def is_incomplete(self) -> bool:
        """Whether a frame, or a block of headers, has begun and not ended."""
        return bool(self._data or self._headers_buffer or 0 < self._preamble_len < _PREFACE_BYTES)

    @property
    def is_too_long(self) -> bool:
        """Whether the frame that has begun says that it will be longer than it may be."""
        data = self._data
        return len(data) >= _FRAME_HEAD_BYTES and int.from_bytes(data[:3], "big") > self.max_frame_size

    def refill(self, seconds: float) -> None:
        """Add the tokens for a time that has passed."""
        self.tokens = min(BURST, self.tokens + seconds * TOKENS_PER_SECOND)

    def allow_window_updates(self) -> None:
        """Let the client say that it has taken a DATA frame, or a reply without one."""
        if self.free_window_updates < _MAX_WINDOW_UPDATES:
            self.free_window_updates += WINDOW_UPDATES_PER_DATA_FRAME

    def _update_header_buffer(self, frame: Frame | None) -> Frame | None:
        """Count a frame; h2 calls this for each, whatever it is."""
        self.frame_count += 1
        if frame.__class__ in _PRICED:
            if frame.__class__ is WindowUpdateFrame and self.free_window_updates:
                self.free_window_updates -= 1
            else:
                self.tokens -= 1
            if frame.__class__ is ContinuationFrame:
                self._check_block(frame)
        if self.tokens < 0:
            raise h2.exceptions.DenialOfServiceError("too many frames that serve no request")
        return super()._update_header_buffer(frame)

    def _check_block(self, last: ContinuationFrame) -> None:
        if sum(len(part.data) for part in self._headers_buffer) + len(last.data) > self._max_block_bytes:
            raise h2.exceptions.DenialOfServiceError("the block of headers is too long")


class CountedConnection(h2.connection.H2Connection):
    """The server's end of a connection.

    Args:
      max_streams: what the client is told; to be seen to by the caller.
      max_header_bytes: of a request's headers, as HTTP/2 counts them.

    Attributes:
      is_client_leaving: whether the client has said goodbye, in peace: it asks nothing more.
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
        self._sweep_at = 0  # so many streams that are open or were

    def _open_streams(self, remainder: int) -> int:
        """Forget the streams that were closed, from time to time; h2 wants that, and their number, for each request.

        It looks at all streams there are each time. Of 32 requests that wait for a commit together each paid 430
        instructions for that, now 20. h2 has no use for the number, which need not be exact: see `_MAX_STREAMS_OF_H2`.
        """
        if len(self.streams) < self._sweep_at:
            return len(self.streams)
        count = super()._open_streams(remainder)
        self._sweep_at = 2 * len(self.streams) + SPARED_STREAMS
        return count

    def count_requests(self) -> int:
        """Return how many streams are open for requests."""
        self._sweep_at = 0
        return self.open_inbound_streams

    def initiate_connection(self) -> None:
        """Tell the client what it may do."""
        super().initiate_connection()
        allowed = {**self._limits, SettingCodes.MAX_CONCURRENT_STREAMS: _MAX_STREAMS_OF_H2}
        self.local_settings = h2.settings.Settings(client=False, initial_values=allowed)

    def send_empty_reply(self, stream_id: int, fields: list[tuple[bytes, bytes]]) -> None:
        """Send a reply that ends with its headers, as `send_headers` does, in a tenth of the instructions.

        It does not look at the fields, for they are ours: the status, and names in lower case, of a few hundred bytes.

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

    def receive_data(self, data: bytes) -> list[h2.events.Event]:  # type: ignore[override] # all that Hypercorn has
        """Take in what came; raises h2's ProtocolError, with the goodbye ready to be sent."""
        events = super().receive_data(data)
        if self.frames.is_too_long:
            self._terminate_connection(ErrorCodes.FRAME_SIZE_ERROR)
            raise h2.exceptions.FrameTooLargeError("the frame is longer than it may be")
        return events

    def _receive_headers_frame(self, frame: HeadersFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Take in headers; those for a stream that is over are answered with a reset, if at all: they serve nobody."""
        if frame.stream_id <= self.highest_inbound_stream_id:
            stream = self.streams.get(frame.stream_id)
            self.frames.tokens -= stream is None or stream.closed
        return super()._receive_headers_frame(frame)

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Take in settings; those that HTTP/2 does not know are to be ignored, while h2 would keep them."""
        settings = {code: value for code, value in frame.settings.items() if code in _KNOWN_SETTINGS}
        if (table_bytes := settings.pop(SettingCodes.HEADER_TABLE_SIZE, None)) is not None:
            table_bytes = min(table_bytes, MAX_TABLE_BYTES)
            if table_bytes != self.encoder.header_table_size:  # set again, hpack would not tell of it any more
                settings[SettingCodes.HEADER_TABLE_SIZE] = table_bytes
        frame.settings = settings
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: GoAwayFrame) -> tuple[list[Frame], list[h2.events.Event]]:
        """Take in a goodbye; what was asked before it is still answered, while h2 would send nothing more."""
        if frame.error_code != ErrorCodes.NO_ERROR:
            return super()._receive_goaway_frame(frame)
        self.is_client_leaving = True
        return [], []
