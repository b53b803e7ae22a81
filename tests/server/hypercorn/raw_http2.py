"""An HTTP/2 client that sends any frames, and keeps those that arrive.

It takes nothing by itself: no acknowledgement, no window, no order. What arrives is kept also when the connection is
broken off, so that a goodbye is never missed.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import asynccontextmanager

import hpack
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD_BYTES = 9


class RawConnection(asyncio.Protocol):
    """Bytes to and from a server.

    Attributes:
      received: what came and was not taken yet.
      is_over: whether the server has ended the connection.
    """

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_over = False
        self._news = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        self._news.set()

    def connection_lost(self, exc):
        self.is_over = True
        self._news.set()

    async def more(self) -> bool:
        """Wait for bytes; False when there will be none."""
        if self.is_over:
            return False
        self._news.clear()
        await self._news.wait()
        return True

    def write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    async def until_over(self) -> bytes:
        """Return all that is left once the server has ended the connection."""
        while await self.more():
            pass
        return bytes(self.received)


class RawHttp2:
    """One connection.

    Attributes:
      frames: all frames that came, in order.
      peer: the connection below.
    """

    def __init__(self, peer: RawConnection) -> None:
        self.peer = peer
        self.frames: list[Frame] = []
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._heads: dict[int, dict[bytes, bytes]] = {}

    def begin(self, settings: dict[int, int] | None = None) -> None:
        """Send what a connection begins with."""
        self.peer.write(PREFACE)
        self.send(SettingsFrame(0, settings=settings or {}))

    def send(self, *frames: Frame) -> None:
        self.peer.write(b"".join(frame.serialize() for frame in frames))

    def headers(self, *more: tuple[str, str], **pseudo: str | None) -> bytes:
        """Return a header block for a POST to /, with changed and additional fields; None removes a field."""
        fields = {"method": "POST", "scheme": "https", "path": "/", "authority": "localhost"} | pseudo
        pseudo_fields = [(f":{name}", value) for name, value in fields.items() if value is not None]
        return self._encoder.encode([*pseudo_fields, *more])

    def request(
        self, stream_id: int, *more: tuple[str, str], flags=("END_HEADERS", "END_STREAM"), **pseudo: str | None
    ) -> HeadersFrame:
        """Return the frame that begins a request, and ends it."""
        return HeadersFrame(stream_id, data=self.headers(*more, **pseudo), flags=list(flags))

    def post(self, stream_id: int, *more: tuple[str, str], **pseudo: str | None) -> HeadersFrame:
        """Return the frame that begins a request with a body to come."""
        return self.request(stream_id, *more, flags=("END_HEADERS",), **pseudo)

    def open_windows(self, *stream_ids: int, size_bytes: int = 1 << 20) -> None:
        self.send(*(WindowUpdateFrame(stream_id, window_increment=size_bytes) for stream_id in stream_ids))

    async def wait_for(self, is_it: Callable[[Frame], object]) -> Frame:
        """Return the first frame of those that came, or will, that is it; fails when the connection ends without."""
        checked = 0
        while True:
            self._take_frames()
            for frame in self.frames[checked:]:
                if is_it(frame):
                    return frame
            checked = len(self.frames)
            if not await self.peer.more():
                self._take_frames()
                assert len(self.frames) > checked, f"the connection ended after {self.frames[-3:]}"

    async def status(self, stream_id: int) -> int:
        """Return the status of the reply on a stream."""
        await self.wait_for(lambda frame: isinstance(frame, HeadersFrame) and frame.stream_id == stream_id)
        return int(self._heads[stream_id][b":status"])

    async def body(self, stream_id: int) -> bytes:
        """Return the whole body of a reply."""
        await self.wait_for(lambda f: f.stream_id == stream_id and "END_STREAM" in f.flags)
        return b"".join(f.data for f in self.frames if isinstance(f, DataFrame) and f.stream_id == stream_id)

    def header(self, stream_id: int, name: bytes) -> bytes | None:
        return self._heads[stream_id].get(name)

    async def reset_of(self, stream_id: int) -> int:
        """Return the error code with which the server resets a stream."""
        frame = await self.wait_for(lambda frame: isinstance(frame, RstStreamFrame) and frame.stream_id == stream_id)
        return frame.error_code

    async def goodbye(self) -> int:
        """Return the error code of the server's GOAWAY, after which the connection must end."""
        frame = await self.wait_for(lambda frame: isinstance(frame, GoAwayFrame))
        await self.peer.until_over()
        return frame.error_code

    def _take_frames(self) -> None:
        data = self.peer.received
        while len(data) >= FRAME_HEAD_BYTES:
            frame, length = Frame.parse_frame_header(memoryview(bytes(data[:FRAME_HEAD_BYTES])))
            if len(data) < FRAME_HEAD_BYTES + length:
                return
            frame.parse_body(memoryview(bytes(data[FRAME_HEAD_BYTES : FRAME_HEAD_BYTES + length])))
            del data[: FRAME_HEAD_BYTES + length]
            if isinstance(frame, HeadersFrame):
                self._heads.setdefault(frame.stream_id, dict(self._decoder.decode(frame.data, raw=True)))
            self.frames.append(frame)


async def connect_raw(port: int, cafile: str | None, protocol: str = "h2") -> RawConnection:
    """Connect; with TLS when there is an authority to trust."""
    context = None
    if cafile is not None:
        context = ssl.create_default_context(cafile=cafile)
        context.set_alpn_protocols([protocol])
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_connection(
        RawConnection, "127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None
    )
    return peer


@asynccontextmanager
async def raw_http2(port: int, cafile: str | None, settings: dict[int, int] | None = None, *, begins: bool = True):
    """A connection that has begun while the block runs."""
    client = RawHttp2(await connect_raw(port, cafile))
    try:
        if begins:
            client.begin(settings)
        yield client
    finally:
        client.peer.transport.abort()
