"""Starting and stopping Granian in this process.

    client ──▶ Granian's thread ──`handover`──▶ this event loop: the ASGI application
               TLS, HTTP/2, windows    many calls, one wake-up

Normally, Granian starts processes of its own; this uses its embedded server, on a socket that we have bound. That uses
private parts of Granian, so every other version is rejected. Knows neither the broker nor the applications.

A stop lets the requests in progress end before Granian sends GOAWAY, which some clients take for the end of the
connection. Connections that do not end in time, because their clients do not read, are shut down.
"""

import asyncio
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from granian.constants import Interfaces, SSLProtocols
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined] # not declared as exported
from granian.server.embed import Server
from starlette.types import ASGIApp

from miniqueue.errors import CertificateError, InternalError
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.granian.handover import NATIVE, Handover
from miniqueue.server.granian.requests import LAST_WORDS_SECONDS, Requests
from miniqueue.server.hypercorn import HttpLimits
from miniqueue.server.hypercorn.closing import CLOSE_SECONDS
from miniqueue.server.hypercorn.limits import HEADERS_SECONDS
from miniqueue.server.hypercorn.listening import BACKLOG, GRACEFUL_SECONDS
from miniqueue.server.process import descriptors
from miniqueue.server.security.certificates import server_tls_context
from miniqueue.server.security.file_access import read_regular

STREAM_WINDOW_BYTES = 65_535
MAX_STREAMS = 100

_CURVES = ("secp256r1", "secp384r1")
_RSA_BITS = range(2048, 4096 + 1)

_HTTP1 = HTTP1Settings(header_read_timeout=round(HEADERS_SECONDS * 1000))
_HTTP2 = HTTP2Settings(
    # The sum of the windows of all streams, so that no stream uses the space of another.
    initial_connection_window_size=MAX_STREAMS * STREAM_WINDOW_BYTES,
    initial_stream_window_size=STREAM_WINDOW_BYTES,
    # A client can process a message for hours without reading, so it cannot be required to answer PING.
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
    limits: HttpLimits | None = None,
) -> None:
    """Serve HTTP/2 and HTTP/1.1 over TLS until `shutdown_trigger` returns; closes the socket.

    Requests in progress then have `GRACEFUL_SECONDS` to end.

    Raises:
      CertificateError: the certificate or its key cannot be used.
      InternalError: Granian did not start, or stopped by itself.
    """
    server_tls_context(cert, key)
    _check_kind(key)
    port = listener.getsockname()[1]
    requests = Requests(app, limits.refusals if limits else Refusals(time.monotonic), limits.memory if limits else None)
    handover = Handover(requests)
    server = _EmbeddedServer(handover, listener, cert, key)
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.ensure_future(shutdown_trigger())
    watching = asyncio.create_task(requests.watch(handover.begin))
    try:
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            raise InternalError("Granian does not serve; it has logged why")
        handover.begin()
        await requests.wait(GRACEFUL_SECONDS)
        await asyncio.sleep(LAST_WORDS_SECONDS)
    finally:
        stopping.cancel()
        watching.cancel()
        server.stop()  # type: ignore[no-untyped-call] # no arguments, no result
    await asyncio.wait((serving,), timeout=CLOSE_SECONDS)
    if not serving.done():
        _shut_down_connections(port)
    await serving


def _check_kind(key: Path) -> None:
    """Raise CertificateError for a key that OpenSSL supports but Granian does not: it would abort the process."""
    try:
        private_key = load_pem_private_key(read_regular(key), None)
    except (OSError, ValueError, UnsupportedAlgorithm) as exc:
        raise CertificateError([f"key {key}: {exc}"]) from exc
    match private_key:
        case rsa.RSAPrivateKey():
            is_supported = private_key.key_size in _RSA_BITS
        case ec.EllipticCurvePrivateKey():
            is_supported = private_key.curve.name in _CURVES
        case _:
            is_supported = isinstance(private_key, ed25519.Ed25519PrivateKey)
    if not is_supported:
        raise CertificateError(
            [f"key {key}: not supported by Granian; must be RSA (2048 to 4096 bits), ECDSA (P-256, P-384), or Ed25519"]
        )


class _EmbeddedServer(Server):
    """Granian on a socket that is already bound."""

    def __init__(self, handover: Handover, listener: socket.socket, cert: Path, key: Path) -> None:
        super().__init__(
            None,
            interface=Interfaces.ASGINL,
            backlog=BACKLOG,
            backpressure=descriptors.granian_connections(descriptors.limit()),
            http1_settings=_HTTP1,
            http2_settings=_HTTP2,
            ssl_cert=cert,
            ssl_key=key,
            ssl_protocol_min=SSLProtocols.tls12,
            websockets=False,
            # Errors reach our log through the root logger.
            log_level=LogLevels.error,
            log_dictconfig={"handlers": {}, "loggers": {}},
        )
        self._handover = handover
        self._listener = listener

    async def serve(self) -> None:  # type: ignore[override] # the target is fixed
        """Serve until stopped; Granian logs it if it ends by itself."""
        await super().serve(self._work)  # type: ignore[arg-type] # as are Granian's own targets

    async def _work(self, number: int, stop: Any, *_: object) -> None:  # noqa: ANN401 - the stubs are incomplete
        """Serve until `stop`, as Granian's own worker does, but with our handover to the loop."""
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()
        stop.add_cb(lambda: loop.call_soon_threadsafe(stopped.set_result, None))
        worker = NATIVE.ASGIWorker(
            number,
            (self._ssp, self._shd),
            None,
            self.runtime_threads,
            self.runtime_blocking_threads,
            self.blocking_threads,
            self.blocking_threads_idle_timeout,
            self.backpressure,
            self.http,
            self.http1_settings,
            self.http2_settings,
            self.websockets,
            self.static_path,
            *self.ssl_ctx,
            (None, None),
        )
        worker.serve_async(self._handover.scheduler(loop), loop, stop)
        await stopped

    def _init_shared_socket(self) -> None:
        self._shd = SocketHolder(self._listener.detach(), False, BACKLOG)  # type: ignore[assignment,call-arg] # the form that pickle uses


def _shut_down_connections(port: int) -> None:
    """Shut down every connection that this process has accepted on `port`; Granian gives no access to them."""
    for name in os.listdir("/proc/self/fd/"):
        with suppress(OSError):  # closed meanwhile, or not connected
            if stat.S_ISSOCK(os.stat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.getsockname()[1] == port:
                        connection.shutdown(socket.SHUT_RDWR)
