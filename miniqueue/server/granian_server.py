"""Granian, the other HTTP server: TLS and HTTP/2 in Rust, on a thread of its own, in this process.

    client ──▶ Granian's thread ──call_soon_threadsafe──▶ this event loop: the ASGI application
               TLS, HTTP/2, windows    many calls, one wake-up

Opt-in (`-http-server granian`), an extra, and named only by `run`. Granian starts processes of its own as a rule; this
uses its embedded server, on a socket that we have bound. That reaches into Granian, so every other version is refused.
Knows neither the broker nor what is served.

A stop lets the requests under way end before Granian says goodbye: there are clients that take GOAWAY for the end of
the connection. What does not end in time, because its client does not read, is cut off.
"""

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from granian.constants import Interfaces, SSLProtocols
from granian.http import HTTP2Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined] # exported without saying so
from granian.server.embed import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from miniqueue.errors import CertificateError, InternalError
from miniqueue.server import descriptors
from miniqueue.server.closing import CLOSE_SECONDS
from miniqueue.server.listening import BACKLOG, GRACEFUL_SECONDS
from miniqueue.server.security import server_tls_context

#: For Granian's thread to write what was answered; it does not tell when it has.
LAST_WORDS_SECONDS = 0.2

STREAM_WINDOW_BYTES = 65_535
MAX_STREAMS = 100

_CURVES = ("secp256r1", "secp384r1")
_RSA_BITS = range(2048, 4096 + 1)

_HTTP2 = HTTP2Settings(
    # As much as all its streams may send, so that no stream takes the room of another.
    initial_connection_window_size=MAX_STREAMS * STREAM_WINDOW_BYTES,
    initial_stream_window_size=STREAM_WINDOW_BYTES,
    # A client may work on its message for hours without reading, so it cannot be asked to answer PING.
    keep_alive_interval=None,
    max_concurrent_streams=MAX_STREAMS,
    max_headers_size=8192,
)


async def serve_https(
    app: ASGIApp,
    listener: socket.socket,
    cert: Path,
    key: Path,
    shutdown_trigger: Callable[[], Awaitable[object]],
) -> None:
    """Serve HTTP/2 and HTTP/1.1 over TLS until `shutdown_trigger` returns; takes the socket over.

    Requests under way then have `GRACEFUL_SECONDS` to end.

    Raises:
      CertificateError: the certificate or its key cannot be used.
      InternalError: Granian did not start, or stopped of its own accord.
    """
    server_tls_context(cert, key)
    _check_kind(key)
    port = listener.getsockname()[1]
    requests = _Requests(app)
    server = _EmbeddedServer(requests, listener, cert, key)
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.ensure_future(shutdown_trigger())
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            raise InternalError("Granian does not serve; it has logged why")
        await requests.wait(GRACEFUL_SECONDS)
        await asyncio.sleep(LAST_WORDS_SECONDS)
    finally:
        stopping.cancel()
        server.stop()  # type: ignore[no-untyped-call] # it takes and returns nothing
    await asyncio.wait((serving,), timeout=CLOSE_SECONDS)
    if not serving.done():
        _cut_off(port)
    await serving


def _check_kind(key: Path) -> None:
    """Raise CertificateError for a key that OpenSSL knows and Granian does not: it would abort the process."""
    try:
        found = load_pem_private_key(key.read_bytes(), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as exc:
        raise CertificateError([f"key {key}: {exc}"]) from exc
    match found:
        case rsa.RSAPrivateKey():
            is_known = found.key_size in _RSA_BITS
        case ec.EllipticCurvePrivateKey():
            is_known = found.curve.name in _CURVES
        case _:
            is_known = isinstance(found, ed25519.Ed25519PrivateKey)
    if not is_known:
        raise CertificateError(
            [f"key {key}: Granian wants RSA of 2048 to 4096 bits, ECDSA on P-256 or P-384, or Ed25519"]
        )


class _Requests:
    """An application, and who is still being answered by it.

    What a client still sends after an early reply is read for a moment: Granian resets the stream of a request that was
    not read, in one piece with the reply, and curl 7.88 then forgets the reply.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[object] | None] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = _Body(scope, receive)
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._app(scope, body.receive, send)
            if not body.is_read:
                await _discard(receive)
        finally:
            self._tasks.discard(task)

    async def wait(self, timeout_seconds: float) -> None:
        """Wait until those are answered who are under way now."""
        if tasks := [task for task in self._tasks if task is not None]:
            await asyncio.wait(tasks, timeout=timeout_seconds)


class _Body:
    """The body of a request, and whether all of it was read.

    Granian tells the end of a body only when it is asked once more, and every answer goes from thread to thread. A
    request that has told its length needs no such question.
    """

    __slots__ = ("_receive", "_unread_bytes", "is_read")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._unread_bytes = _content_length(scope)
        self.is_read = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._unread_bytes -= len(message["body"])
            if self._unread_bytes == 0:
                message["more_body"] = False
        self.is_read = not message.get("more_body", False)
        return message


def _content_length(scope: Scope) -> int:
    """Return how long the body is to be, or -1."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value)
    return -1


async def _discard(receive: Receive) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            while (await receive()).get("more_body", False):
                pass


class _EmbeddedServer(Server):
    """Granian on a socket that is bound already."""

    def __init__(self, app: ASGIApp, listener: socket.socket, cert: Path, key: Path) -> None:
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            backlog=BACKLOG,
            backpressure=descriptors.granian_connections(descriptors.limit()),
            http2_settings=_HTTP2,
            ssl_cert=cert,
            ssl_key=key,
            ssl_protocol_min=SSLProtocols.tls12,
            websockets=False,
            # Errors go to our log, by way of the root logger.
            log_level=LogLevels.error,
            log_dictconfig={"handlers": {}, "loggers": {}},
        )
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._shd = SocketHolder(self._listener.detach(), False, BACKLOG)  # type: ignore[assignment,call-arg] # as pickle makes it


def _cut_off(port: int) -> None:
    """Shut down every connection that this process has accepted on `port`; Granian hands out none of them."""
    for name in os.listdir("/proc/self/fd/"):
        with suppress(OSError):  # closed meanwhile, or not connected
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getsockname()[1] == port:
                        connection.shutdown(socket.SHUT_RDWR)
