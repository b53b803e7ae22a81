"""Listening sockets, and Hypercorn on them.

We bind, so that a port that is taken is reported by us before anything has started; Hypercorn serves. It is
configured as its faults demand (`h2guard`): no limit of requests on a connection, because reaching it drops those
under way, and no read timeout, because it stops reading and leaves the handler running.
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
from miniqueue.server import closing, h2guard
from miniqueue.server.h2guard import HttpLimits
from miniqueue.server.h2guard.deadlines import KEEP_ALIVE_SECONDS, TLS_HANDSHAKE_SECONDS
from miniqueue.server.h2guard.limits import MAX_HEADER_BYTES
from miniqueue.server.refusals import Refusals
from miniqueue.server.security import server_tls_context

#: `serve_https` here, and its like for another server.
ServeHttps: TypeAlias = Callable[
    [ASGIApp, socket.socket, Path, Path, Callable[[], Awaitable[object]]], Coroutine[None, None, None]
]

BACKLOG = 1024
#: With `closing.CLOSE_SECONDS` after it, still well under what a supervisor waits before it kills.
GRACEFUL_SECONDS = 4.0
#: A peer whose machine is gone without a word still holds its message: a silent connection is asked for a sign of life
#: after 60 s, and given up after four more silences of 15 s. What is written goes at once: uvloop sees to that itself,
#: while Granian let the first reply of a connection wait 40 ms for a delayed acknowledgement. Linux lets connections
#: inherit all this from their listener.
CONNECTION_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def listen(host: str, port: int, port_flag: str = "-port", host_flag: str = "-host") -> socket.socket:
    """Return a socket that accepts connections to `host`, an address or a name; port 0 takes any free one.

    Raises ListenError with the host, the port, the reason and the flag to change.
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
    """Return why, without the address, which `create_server` puts into its text."""
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
    """Serve HTTP/2 and HTTP/1.1 over TLS until `shutdown_trigger` returns; takes the socket over.

    Requests under way then have `GRACEFUL_SECONDS` to end. Without `context`, TLS has the certificate of the start.

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
    """Serve HTTP/1.1, and HTTP/2 to those who know, without TLS; otherwise as `serve_https`."""
    await _serve(app, listener, _QueueConfig(), shutdown_trigger, limits)


async def _serve(
    app: ASGIApp,
    listener: socket.socket,
    config: "_QueueConfig",
    shutdown_trigger: Callable[[], Awaitable[object]],
    limits: HttpLimits | None,
) -> None:
    h2guard.install()
    config.limits = limits or HttpLimits(Refusals(time.monotonic))
    config.keep_alive_timeout = config.limits.idle_seconds
    config.ssl_handshake_timeout = config.limits.handshake_seconds
    config.h11_max_incomplete_size = config.h2_max_header_list_size = config.limits.max_header_bytes
    closing.install()
    config.bind = [f"fd://{listener.detach()}"]
    try:
        await serve(app, config, shutdown_trigger=shutdown_trigger, mode="asgi")  # type: ignore[arg-type] # same calls, other type names
    except asyncio.CancelledError:
        # Hypercorn raises it of its own accord when it had to break off requests at the end.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise


class _QueueConfig(h2guard.GuardedConfig):
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
    """Hypercorn's errors, among our own; what it says at a start we say ourselves."""

    def __init__(self, config: Config) -> None:
        self.access_logger = None
        self.error_logger = structlog.get_logger("hypercorn")

    async def access(self, *arguments: object) -> None:
        """Say nothing."""

    async def info(self, message: str, *arguments: object) -> None:
        """Say nothing."""


_QueueConfig.logger_class = _StructuredLog
