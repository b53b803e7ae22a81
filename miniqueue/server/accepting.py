"""Accepting connections, for as long as there are descriptors to spare, and as many as one address may have.

    listener ─ accept ─▶ number of the descriptor in the reserve? ─ no ──▶ too many? ─ no ──▶ protocol, TLS if wanted
                                                                  └ yes ─────────────┴ yes ─▶ last words, closed

`AcceptingLoop` is uvloop with servers that do this, whoever starts them: the RESP listener, Hypercorn. A connection is
looked at before its TLS begins, since one that never says a word has a descriptor too. uvloop's own servers know no
such limit, and when `accept` fails they close the listener without a word.

Knows sockets and descriptors; knows no protocol. A full process refuses with what the protocol's factory has as its
`refusal`, if anything.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
import uvloop

from miniqueue.broker.limits import Limit
from miniqueue.server import descriptors
from miniqueue.server.census import Census
from miniqueue.server.repeats import RepeatLimit

log = structlog.get_logger()

#: How long to leave the listener alone when `accept` fails: the reason, such as a full table of files, will not pass at
#: once, and the connection goes on waiting.
PAUSE_SECONDS = 0.1
_LOG_INTERVAL_SECONDS = 60.0


class AcceptingLoop(uvloop.Loop):
    """An event loop whose servers keep the reserve of descriptors.

    Attributes:
      census: counts the connections of clients and says when there are too many; None where nobody counts.
      granted: how many descriptors others may take for connections, of which this loop does not learn.
      refused_count: connections that were refused since the start.
    """

    def __init__(self) -> None:
        super().__init__()
        self.census: Census | None = None
        self.granted = 0
        self.refused_count = 0
        self._admitted_to_reserve: dict[int, Census | None] = {}
        self._log_limit = RepeatLimit(_LOG_INTERVAL_SECONDS, time.monotonic)

    def admit_to_reserve(self, listener: socket.socket, census: Census | None = None) -> None:
        """Let the connections of `listener` take half of the reserve: the operator must get in.

        Args:
          listener: of the operator.
          census: counts its connections, which do not count as those of clients; None for no limit.
        """
        self._admitted_to_reserve[listener.fileno()] = census

    async def create_server(  # type: ignore[override] # for a socket, which is all that is asked for
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        *_: object,
        sock: socket.socket,
        ssl: ssl.SSLContext | None = None,
        ssl_handshake_timeout: float | None = None,
        **_options: object,
    ) -> "_Server":
        """Serve the connections of a listening socket, which is closed with the server."""
        options = {"ssl": ssl, "ssl_handshake_timeout": ssl_handshake_timeout} if ssl else {}
        return _Server(self, sock, protocol_factory, options)

    def has_room_for(self, connection: socket.socket, listener: socket.socket) -> bool:
        """Tell whether a connection may keep the descriptor that it got."""
        total = descriptors.limit()
        reserved = descriptors.reserve(total)
        if listener.fileno() in self._admitted_to_reserve:
            return connection.fileno() < total - reserved // 2
        return connection.fileno() < total - reserved - self.granted

    def limit_for(self, address: str, listener: socket.socket) -> Limit | None:
        """Return the limit that a connection from `address` would break."""
        census = self._census_of(listener)
        return None if census is None else census.limit_for(address)

    def count(self, connection: socket.socket, address: str, listener: socket.socket) -> socket.socket:
        """Return the connection as one that is counted for as long as it lives."""
        census = self._census_of(listener)
        if census is None:
            return connection
        census.opened(address)
        return _CountedSocket(connection, partial(census.closed, address))

    def _census_of(self, listener: socket.socket) -> Census | None:
        return self._admitted_to_reserve.get(listener.fileno(), self.census)

    def refuse(self, connection: socket.socket, last_words: bytes) -> None:
        """Close a connection for which there is no descriptor."""
        self.refused_count += 1
        held_back = self._log_limit.admit("refused")
        if held_back is not None:
            log.warning("too many connections; one was refused", limit=descriptors.limit(), held_back=held_back)
        _dismiss(connection, last_words)

    def turn_away(self, connection: socket.socket, last_words: bytes, limit: Limit, address: str) -> None:
        """Close a connection that would break a limit."""
        held_back = self._log_limit.admit(limit)
        if held_back is not None:
            log.warning("too many connections; one was refused", limit=limit, client=address, held_back=held_back)
        _dismiss(connection, last_words)

    def could_not_accept(self, error: OSError) -> None:
        """Say that the kernel gave no connection."""
        held_back = self._log_limit.admit(error.errno)
        if held_back is not None:
            log.error("a connection could not be accepted", error=str(error), held_back=held_back)


class _Server:
    """One listening socket; accepts until it is closed."""

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
        self._last_words: bytes = b"" if options else getattr(factory, "refusal", b"")  # no plain text to TLS clients
        self._beginning: set[asyncio.Task[None]] = set()
        self._accepting = loop.create_task(self._accept())

    def close(self) -> None:
        """Accept no more; connections go on."""
        self._accepting.cancel()
        self._listener.close()

    async def wait_closed(self) -> None:
        """Return: there is nothing to wait for."""

    async def _accept(self) -> None:
        while True:
            try:
                connection, (address, *_) = await self._loop.sock_accept(self._listener)
            except OSError as exc:
                self._loop.could_not_accept(exc)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if not self._loop.has_room_for(connection, self._listener):
                self._loop.refuse(connection, self._last_words)
            elif limit := self._loop.limit_for(address, self._listener):
                self._loop.turn_away(connection, self._last_words, limit, address)
            else:
                self._begin(self._loop.count(connection, address, self._listener))

    def _begin(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._connect(connection))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(self._factory, connection, **self._options)
        except OSError:  # the peer is gone, or no peer of ours: TLS has failed, or took too long
            connection.close()


class _CountedSocket(socket.socket):
    """A connection that tells when it is over: uvloop detaches the socket of a transport that it has closed."""

    def __init__(self, connection: socket.socket, ended: Callable[[], None]) -> None:
        super().__init__(fileno=connection.detach())
        self._ended: Callable[[], None] | None = ended

    def detach(self) -> int:
        """Give the descriptor up."""
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
