"""Listening sockets, and Hypercorn on them.

The sockets are bound here, so that a port in use is reported before anything has started; Hypercorn serves them. Its
configuration avoids its faults: no limit of requests per connection, because reaching it drops requests in progress,
and no read timeout, because it stops reading and leaves the handler running.
"""

import asyncio
import errno
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TypeAlias

import structlog
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.logging import Logger
from starlette.types import ASGIApp

from miniqueue.errors import ListenError
from miniqueue.server import hypercorn
from miniqueue.server.asgi.refusals import Refusals
from miniqueue.server.hypercorn import HttpLimits, closing
from miniqueue.server.hypercorn.limits import KEEP_ALIVE_SECONDS, MAX_HEADER_BYTES, TLS_HANDSHAKE_SECONDS
from miniqueue.server.security.certificates import server_tls_context

#: The type of `serve_https`, here and in `granian.server`.
ServeHttps: TypeAlias = Callable[
    [ASGIApp, socket.socket, Path, Path, Callable[[], Awaitable[object]]], Coroutine[None, None, None]
]

#: Maximum number of connections that the kernel queues before they are accepted.
BACKLOG = 1024
#: Time for requests in progress at a stop; with `closing.CLOSE_SECONDS` after it, well under the time after which a
#: supervisor kills the process.
GRACEFUL_SECONDS = 4.0
#: A client whose machine has failed would keep its leases: so keep-alive probes are sent after 60 s of silence, and the
#: connection ends after four more intervals of 15 s. Data is sent at once: uvloop sets that itself, but with Granian,
#: the first reply of a connection waited 40 ms for a delayed acknowledgement. On Linux, connections inherit these
#: options from their listener.
CONNECTION_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def listen(host: str, port: int, port_flag: str = "-port", host_flag: str = "-host") -> socket.socket:
    """Return a socket that listens on `host`, an address or a name; port 0 means any free port.

    Raises ListenError with the host, the port, the reason, and the flag to change.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as exc:
        flag = host_flag if _is_about_host(exc) else port_flag
        raise ListenError(host, port, f"{_reason(exc)} ({flag})") from exc
    for option in CONNECTION_OPTIONS:
        listener.setsockopt(*option)
    return listener


def _is_about_host(error: OSError) -> bool:
    return isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL


def _reason(error: OSError) -> str:
    """Return the reason without the address, which `create_server` adds to its text."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


async def serve_https(
    app: ASGIApp,
    listener: socket.socket,
    cert: Path,
    key: Path,
    shutdown_trigger: Callable[[], Awaitable[object]],
    limits: HttpLimits | None = None,
    *,
    context: ssl.SSLContext | None = None,
) -> None:
    """Serve HTTP/2 and HTTP/1.1 over TLS until `shutdown_trigger` returns; closes the socket.

    Requests in progress then have `GRACEFUL_SECONDS` to end. Without `context`, `cert` and `key` are loaded once.

    Raises CertificateError.
    """
    config = _TlsConfig(context or server_tls_context(cert, key))
    config.certfile, config.keyfile = str(cert), str(key)
    await _serve(app, listener, config, shutdown_trigger, limits)


async def serve_plain(
    app: ASGIApp,
    listener: socket.socket,
    shutdown_trigger: Callable[[], Awaitable[object]],
    limits: HttpLimits | None = None,
) -> None:
    """Serve HTTP/1.1, and HTTP/2 to clients that begin with it, without TLS; otherwise like `serve_https`."""
    await _serve(app, listener, _QueueConfig(), shutdown_trigger, limits)


async def _serve(
    app: ASGIApp,
    listener: socket.socket,
    config: "_QueueConfig",
    shutdown_trigger: Callable[[], Awaitable[object]],
    limits: HttpLimits | None,
) -> None:
    hypercorn.install()
    config.limits = limits or HttpLimits(Refusals(time.monotonic))
    config.keep_alive_timeout = config.limits.idle_seconds
    config.ssl_handshake_timeout = config.limits.handshake_seconds
    config.h11_max_incomplete_size = config.h2_max_header_list_size = config.limits.max_header_bytes
    closing.install()
    config.bind = [f"fd://{listener.detach()}"]
    try:
        await serve(app, config, shutdown_trigger=shutdown_trigger, mode="asgi")  # type: ignore[arg-type] # same calls, other type names
    except asyncio.CancelledError:
        # Hypercorn raises this by itself if it had to abort requests at the end.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise


class _QueueConfig(hypercorn.GuardedConfig):
    accesslog = None
    backlog = BACKLOG
    graceful_timeout = GRACEFUL_SECONDS
    h11_max_incomplete_size = MAX_HEADER_BYTES
    h2_max_concurrent_streams = 100
    h2_max_header_list_size = MAX_HEADER_BYTES
    include_server_header = False
    keep_alive_max_requests = 2**31 - 1
    keep_alive_timeout = KEEP_ALIVE_SECONDS
    max_app_queue_size = 64
    ssl_handshake_timeout = TLS_HANDSHAKE_SECONDS


class _TlsConfig(_QueueConfig):
    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def create_ssl_context(self) -> ssl.SSLContext:
        return self._context


class _StructuredLog(Logger):
    """Writes Hypercorn's errors to our log, and drops its other messages, which repeat ours."""

    def __init__(self, config: Config) -> None:
        self.access_logger = None
        self.error_logger = structlog.get_logger("hypercorn")

    async def access(self, *arguments: object) -> None:
        """Log nothing."""

    async def info(self, message: str, *arguments: object) -> None:
        """Log nothing."""


_QueueConfig.logger_class = _StructuredLog
