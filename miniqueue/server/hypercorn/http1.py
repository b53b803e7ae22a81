"""One HTTP/1.1 connection of Hypercorn, stricter than h11: ambiguous requests are rejected.

    both Content-Length and Transfer-Encoding, a bare LF, a folded header      400, closed
    a request line and headers over the limit, in bytes or in number           431, closed
    headers that take more than 10 s, a body that is late                      408, closed
    Upgrade: h2c                                                               ignored

Knows Hypercorn and h11, of which it uses public names only; does not know the applications. Source: RFC 9112, 2.2, 5.2,
and 6.1.
"""

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


class StrictConnection(h11.Connection):
    """The server's end of a connection.

    Args:
      max_head_bytes: maximum size of the request line and the headers together.
    """

    def __init__(self, max_head_bytes: int) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=max_head_bytes)
        self._max_head_bytes = max_head_bytes

    @property
    def has_begun_head(self) -> bool:
        """Whether a request has begun whose headers are incomplete."""
        return self.their_state is h11.IDLE and bool(self.trailing_data[0])

    def next_event(self) -> Any:  # noqa: ANN401 - upstream's signature
        """Return the next event; raises h11's RemoteProtocolError with the status of the reply."""
        if self.their_state is h11.IDLE:
            _check_head(self.trailing_data[0], self._max_head_bytes)
        event = super().next_event()
        if isinstance(event, h11.Request):
            _check_request(event)
        return event


def _check_head(waiting: bytes, max_bytes: int) -> None:
    end = waiting.find(b"\r\n\r\n")
    head = waiting if end < 0 else waiting[: end + 2]
    if len(head) > max_bytes:
        raise h11.RemoteProtocolError("the headers are too large", error_status_hint=431)
    if head.count(b"\n") != head.count(b"\r\n"):
        raise h11.RemoteProtocolError("a line ends with LF alone")
    if b"\n " in head or b"\n\t" in head:
        raise h11.RemoteProtocolError("a header is folded")


def _check_request(request: h11.Request) -> None:
    names = [name for name, _ in request.headers]
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
            self.task_group.spawn(self.stream.answer_late)

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
