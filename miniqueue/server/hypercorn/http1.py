"""One HTTP/1.1 connection of Hypercorn, stricter than h11: ambiguous requests are rejected.

    both Content-Length and Transfer-Encoding, a bare LF, a folded header      400, closed
    CONNECT, another version than 1.0 and 1.1, a coding of HTTP/1.0            400, closed
    chunks with trailers, or with a line that is not `hex digits;extension`    400, closed
    a request line and headers over the limit, in bytes or in number           431, closed
    headers that take more than 10 s, a body that is late                      408, closed
    Upgrade: h2c                                                               ignored

Knows Hypercorn and h11, of which it uses public names only; does not know the applications. Source: RFC 9112, 2.2, 5.2,
6.1, and 7.1.
"""

import re
from http import HTTPStatus
from typing import Any

import h11
from hypercorn.config import Config
from hypercorn.events import Closed
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import AppWrapper

from miniqueue.server.asgi.refusals import Reason
from miniqueue.server.asgi.replies import problem
from miniqueue.server.hypercorn.limits import HEADERS_SECONDS, Stillness, limits_of
from miniqueue.server.hypercorn.stream import GuardedStream

#: Maximum number of header fields of a request.
MAX_HEADER_FIELDS = 64
#: Maximum size of a line between the chunks of a body; usual ones have five bytes.
MAX_CHUNK_LINE_BYTES = 256

_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e]*)?\r\n")


class StrictConnection(h11.Connection):
    """The server's end of a connection.

    Args:
      max_head_bytes: maximum size of the request line and the headers together.
    """

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=max_head_bytes)
        self._max_head_bytes = max_head_bytes
        self._chunks: ChunkLines | None = None  # set while a body in chunks is read

    @property
    def has_begun_head(self) -> bool:
        """Whether a request has begun whose headers are incomplete."""
        return self.their_state is h11.IDLE and bool(self.trailing_data[0])

    def receive_data(self, data: bytes) -> None:
        """Add bytes of the client."""
        super().receive_data(data)
        if self._chunks is not None:
            self._chunks.feed(data)

    def next_event(self) -> Any:  # noqa: ANN401 - upstream's signature
        """Return the next event; raises h11's RemoteProtocolError with the status of the reply."""
        if self.their_state is h11.IDLE:
            _check_head(self.trailing_data[0], self._max_head_bytes)
        elif self._chunks is not None and self._chunks.fault:
            raise h11.RemoteProtocolError(self._chunks.fault)
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check_request(event)
            if _is_chunked(event):
                self._chunks = ChunkLines()
                self._chunks.feed(self.trailing_data[0])
        elif isinstance(event, h11.EndOfMessage):
            self._chunks = None
        return event


class ChunkLines:
    """Checks the lines of a body in chunks, which h11 reads too generously: it accepts any byte in extensions.

        size line ─▶ data, CRLF ─▶ size line ─▶ … ─▶ size 0 ─▶ an empty line: the end
                                                         └ any other: trailers

    Attributes:
      fault: what is wrong; "" if nothing is. The rest of the body is not read then.
    """

    def __init__(self) -> None:
        self.fault = ""
        self._line = b""  # the beginning of an unfinished line
        self._data_bytes = 0  # left of a chunk, with its CRLF
        self._is_last = False
        self._is_over = False

    def feed(self, data: bytes) -> None:
        """Read bytes of the body, or after it."""
        position = 0
        while position < len(data) and not (self.fault or self._is_over):
            skipped = min(self._data_bytes, len(data) - position)
            self._data_bytes -= skipped
            position += skipped
            if position < len(data):
                end = data.find(b"\n", position) + 1 or len(data)
                self._read(data[position:end])
                position = end

    def _read(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > MAX_CHUNK_LINE_BYTES:
            self.fault = "a line between chunks is too long"
        elif self._line.endswith(b"\n"):
            line, self._line = self._line, b""
            self._end_line(line)

    def _end_line(self, line: bytes) -> None:
        if self._is_last:
            self._is_over = line == b"\r\n"
            self.fault = "" if self._is_over else "a body must not have trailers"
        elif (size := _CHUNK_SIZE.fullmatch(line)) is None:
            self.fault = "a chunk must begin with its size in hexadecimal digits"
        else:
            size_bytes = int(size[1], 16)
            self._is_last = size_bytes == 0
            self._data_bytes = size_bytes + 2 if size_bytes else 0


def _check_head(waiting: bytes, max_bytes: int) -> None:
    end = waiting.find(b"\r\n\r\n")
    head = waiting if end < 0 else waiting[: end + 2]
    if len(head) > max_bytes:
        raise h11.RemoteProtocolError("the headers are too large", error_status_hint=431)
    if head.count(b"\n") != head.count(b"\r\n"):
        raise h11.RemoteProtocolError("a line ends with LF alone")
    if b"\n " in head or b"\n\t" in head:
        raise h11.RemoteProtocolError("a header is folded")


def _is_chunked(request: h11.Request) -> bool:
    return any(name == b"transfer-encoding" for name, _ in request.headers)


def _check_request(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
    if request.method == b"CONNECT":
        raise h11.RemoteProtocolError("CONNECT is for proxies")
    if request.http_version not in (b"1.0", b"1.1") and request.method != b"PRI":  # the beginning of HTTP/2
        raise h11.RemoteProtocolError("the version must be 1.0 or 1.1")
    if request.http_version == b"1.0" and b"transfer-encoding" in names:
        raise h11.RemoteProtocolError("HTTP/1.0 has no transfer codings")
    if len(names) > MAX_HEADER_FIELDS:
        raise h11.RemoteProtocolError("there are too many headers", error_status_hint=431)
    if b"content-length" in names and b"transfer-encoding" in names:
        raise h11.RemoteProtocolError("the length of the body is stated in two ways")


class GuardedH11(H11Protocol):
    """One HTTP/1.1 connection."""

    def __init__(self, app: AppWrapper, config: Config, *arguments: Any) -> None:  # noqa: ANN401 - upstream's signature
        super().__init__(app, config, *arguments)
        self._limits = limits_of(config)
        self._strict = StrictConnection(config.h11_max_incomplete_size)
        self.connection = self._strict
        self._head = Stillness()

    def check_deadlines(self, now_seconds: float) -> None:
        """End a request that takes too long; called once a second."""
        mark = self.keep_alive_requests if self._strict.has_begun_head else None
        if self._head.age(mark, now_seconds) >= HEADERS_SECONDS:
            self._head = Stillness()
            self.task_group.spawn(self._end_late)
        elif isinstance(self.stream, GuardedStream) and self.stream.is_body_late(now_seconds):
            self._limits.refusals.count(Reason.SLOW_BODY, self.client)
            self.task_group.spawn(self.stream.answer_early, HTTPStatus.REQUEST_TIMEOUT)

    async def _end_late(self) -> None:
        await self._send_error_response(408)
        await self.send(Closed())

    async def _check_protocol(self, event: h11.Request) -> None:
        """Switch to HTTP/2 only for a client that begins with it; an upgrade would require validating its settings."""
        if event.method == b"PRI":
            await super()._check_protocol(event)

    async def _send_error_response(self, status_code: int) -> None:
        self._limits.refusals.count(_REASONS.get(status_code, Reason.BAD_REQUEST), self.client)
        reply = problem(status_code)
        headers = [*reply.headers, (b"connection", b"close"), *self.config.response_headers("h11")]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=reply.body))
        await self._send_h11_event(h11.EndOfMessage())


_REASONS = {408: Reason.SLOW_HEADERS, 431: Reason.LARGE_HEADERS}
