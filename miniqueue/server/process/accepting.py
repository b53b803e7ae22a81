"""Accepting connections, as long as descriptors are available and the limits of connections allow it.

    listener ─ accept ─▶ descriptor number in the reserve? ─ no ──▶ over a limit? ─ no ──▶ protocol, after TLS if any
                                                           └ yes ───────────────┴ yes ──▶ last words, closed

If exposed monitoring is full, it closes another connection instead (`guests`).

    TLS ─▶ the first bytes of the client arrive ─▶ turn ─▶ handshake ─▶ protocol

A handshake takes the loop a millisecond, and clients can begin any number at once, so they have a share of its time.

`AcceptingLoop` is uvloop with servers that do this, whatever starts them: the RESP listener or Hypercorn. A connection
is checked before TLS begins, because one that never sends anything uses a descriptor, too. uvloop's own servers have no
such limits, and close the listener without a message when `accept` fails.

Knows sockets and descriptors, but no protocol. The last words are the attribute `refusal` of the protocol's factory, if
it has one.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import structlog
import uvloop

from miniqueue.broker.model.limits import Limit
from miniqueue.broker.runtime.share import TimeShare
from miniqueue.server.process import descriptors
from miniqueue.server.process.connection_limits import ConnectionLimits
from miniqueue.server.process.guests import Guests, Peer
from miniqueue.server.process.repeats import LogRateLimit

log = structlog.get_logger()

#: Pause after `accept` fails: the cause, such as a full file table, lasts for a while; the connection keeps waiting.
PAUSE_SECONDS = 0.1
#: Default of the maximum duration of a TLS handshake.
HANDSHAKE_SECONDS = 60.0
#: Time for the rest of a handshake whose first bytes came late.
MIN_HANDSHAKE_SECONDS = 0.1
_LOG_INTERVAL_SECONDS = 60.0


class AcceptingLoop(uvloop.Loop):
    """An event loop whose servers keep descriptors in reserve, and limit connections.

    Attributes:
      limits: counts and limits the connections of clients; None: unlimited.
      granted: number of descriptors for connections that this loop does not accept: those of Granian.
      beginnings: divides the time of the loop between TLS handshakes and all other work.
      refused_count: number of connections that were rejected for lack of descriptors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limits: ConnectionLimits | None = None
        self.granted = 0
        self.beginnings = TimeShare()
        self.refused_count = 0
        self._admitted_to_reserve: dict[int, ConnectionLimits | None] = {}
        self._guests: dict[int, Guests] = {}
        self._log_limit = LogRateLimit(_LOG_INTERVAL_SECONDS, time.monotonic)

    def admit_to_reserve(
        self, listener: socket.socket, limits: ConnectionLimits | None = None, guests: Guests | None = None
    ) -> None:
        """Allow the connections of `listener` to use half of the reserve: operators must be able to connect.

        Args:
          listener: the socket of monitoring, or of other processes of this broker.
          limits: counts and limits its connections separately from those of clients; None: unlimited.
          guests: closes another connection when a limit is reached; None: the new connection is rejected.
        """
        self._admitted_to_reserve[listener.fileno()] = limits
        if guests is not None:
            self._guests[listener.fileno()] = guests

    async def create_server(  # type: ignore[override] # only for a listening socket
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        *_: object,
        sock: socket.socket,
        ssl: ssl.SSLContext | None = None,
        ssl_handshake_timeout: float = HANDSHAKE_SECONDS,
        **_options: object,
    ) -> "_Server":
        """Serve the connections of a listening socket, and close the socket with the server."""
        options = {"ssl": ssl, "ssl_handshake_timeout": ssl_handshake_timeout} if ssl else {}
        return _Server(self, sock, protocol_factory, options)

    def has_room_for(self, connection: socket.socket, listener: socket.socket) -> bool:
        """Whether the descriptor of a connection is outside the reserve."""
        total = descriptors.limit()
        reserved = descriptors.reserve(total)
        if listener.fileno() in self._admitted_to_reserve:
            return connection.fileno() < total - reserved // 2
        return connection.fileno() < total - reserved - self.granted

    def limit_for(self, address: str, listener: socket.socket) -> Limit | None:
        """Return the limit that a connection from `address` would exceed, or None."""
        limits = self._limits_of(listener)
        return None if limits is None else limits.limit_for(address)

    def makes_room(self, limit: Limit, address: str, listener: socket.socket) -> bool:
        """Close another connection to make room for one from `address`; return whether there was one to close."""
        guests = self._guests.get(listener.fileno())
        closed = None if guests is None else guests.make_room(address, limit)
        if closed is None:
            return False
        held_back = self._log_limit.admit(("closed", limit))
        if held_back is not None:
            message = "too many connections; one that had not signed in was closed"
            log.warning(message, limit=limit, client=closed[0], held_back=held_back)
        return True

    def count(self, connection: socket.socket, peer: Peer, listener: socket.socket) -> socket.socket:
        """Return the connection as one that is counted until it is closed."""
        limits = self._limits_of(listener)
        if limits is None:
            return connection
        address, guests = peer[0], self._guests.get(listener.fileno())
        limits.opened(address)
        if guests is None:
            return CountedSocket(connection, partial(limits.closed, address))

        def closed() -> None:
            limits.closed(address)
            guests.closed(peer)

        counted = CountedSocket(connection, closed)
        guests.opened(peer, counted)
        return counted

    def _limits_of(self, listener: socket.socket) -> ConnectionLimits | None:
        return self._admitted_to_reserve.get(listener.fileno(), self.limits)

    def refuse(self, connection: socket.socket, last_words: bytes) -> None:
        """Close and count a connection whose descriptor is in the reserve."""
        self.refused_count += 1
        held_back = self._log_limit.admit("refused")
        if held_back is not None:
            log.warning("too many connections; one was refused", limit=descriptors.limit(), held_back=held_back)
        _dismiss(connection, last_words)

    def refuse_for_limit(self, connection: socket.socket, last_words: bytes, limit: Limit, address: str) -> None:
        """Close a connection that would exceed a limit."""
        held_back = self._log_limit.admit(limit)
        if held_back is not None:
            log.warning("too many connections; one was refused", limit=limit, client=address, held_back=held_back)
        _dismiss(connection, last_words)

    def log_accept_error(self, error: OSError) -> None:
        """Log that `accept` failed."""
        held_back = self._log_limit.admit(error.errno)
        if held_back is not None:
            log.error("a connection could not be accepted", error=str(error), held_back=held_back)


class _Server:
    """One listening socket, which accepts connections until it is closed."""

    def __init__(
        self,
        loop: AcceptingLoop,
        listener: socket.socket,
        factory: Callable[[], asyncio.BaseProtocol],
        options: dict[str, Any],
    ) -> None:
        listener.setblocking(False)
        self.sockets = (listener,)
        self._loop = loop
        self._listener = listener
        self._factory = factory
        self._options = options
        # Clients of TLS ports could not read plain text.
        self._last_words: bytes = b"" if options else getattr(factory, "refusal", b"")
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = loop.create_task(self._accept())

    def close(self) -> None:
        """Stop accepting; existing connections continue."""
        self._accepting.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        """Return at once; closing completes in `close`."""

    async def _accept(self) -> None:
        while True:
            try:
                connection, name = await self._loop.sock_accept(self._listener)
            except OSError as exc:
                self._loop.log_accept_error(exc)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            address, port = name[:2] if isinstance(name, tuple) else ("", 0)  # a Unix socket has no address
            if not self._loop.has_room_for(connection, self._listener):
                self._loop.refuse(connection, self._last_words)
            elif limit := self._limit_for(address):
                self._loop.refuse_for_limit(connection, self._last_words, limit, address)
            else:
                self._begin(self._loop.count(connection, (address, port), self._listener))

    def _limit_for(self, address: str) -> Limit | None:
        """Return the limit that a connection from `address` exceeds even after others were closed, or None."""
        while limit := self._loop.limit_for(address, self._listener):
            if not self._loop.makes_room(limit, address, self._listener):
                return limit
        return None

    def _begin(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._connect(connection))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        options = self._options
        try:
            if options:  # TLS
                options = {**options, "ssl_handshake_timeout": await self._first_bytes(connection)}
                await self._loop.beginnings.turn()
            pair: Any = await self._loop.connect_accepted_socket(self._factory, connection, **options)
        except OSError:  # the client disconnected, or the TLS handshake failed or took too long
            connection.close()
        else:
            if isinstance(connection, CountedSocket):
                connection.transport = pair[0]

    async def _first_bytes(self, connection: socket.socket) -> float:
        """Return when the client has sent something, or left, how many seconds remain for the handshake."""
        arrived = self._loop.create_future()
        self._loop.add_reader(connection, _resolve, arrived)
        try:
            async with asyncio.timeout(self._options["ssl_handshake_timeout"]) as timeout:
                await arrived
        finally:
            self._loop.remove_reader(connection)
        return max(cast(float, timeout.when()) - self._loop.time(), MIN_HANDSHAKE_SECONDS)


def _resolve(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


class CountedSocket(socket.socket):
    """A connection that reports its end: uvloop detaches the socket of a transport that it has closed.

    Attributes:
      transport: the transport of the connection; None until the TLS handshake is complete.
    """

    def __init__(self, connection: socket.socket, ended: Callable[[], None]) -> None:
        super().__init__(fileno=connection.detach())
        self._ended: Callable[[], None] | None = ended
        self.transport: asyncio.Transport | None = None

    def cut_off(self) -> None:
        """Close the connection, and stop counting it at once."""
        self._end()
        if self.transport is not None:
            self.transport.abort()
            return
        with suppress(OSError):  # the client may have disconnected
            self.shutdown(socket.SHUT_RDWR)  # makes the TLS handshake fail

    def detach(self) -> int:
        """Return the descriptor, which no longer belongs to this object."""
        self._end()
        return super().detach()

    def close(self) -> None:
        """Close the descriptor."""
        self._end()
        super().close()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()


def _dismiss(connection: socket.socket, last_words: bytes) -> None:
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(last_words)
