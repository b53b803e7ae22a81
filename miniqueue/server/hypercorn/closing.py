"""Repairs of Hypercorn 0.18.0: closing a connection takes a limited time, whatever the client does.

To close a connection, TLS sends a message and waits for the answer, and a stop of the server waits for all connections:
one client that kept a connection without reading it delayed the exit by half a minute after SIGTERM. So a client whose
kernel has acknowledged all data is not waited for. And a connection that the client closed while it was idle stayed in
memory until the end of its keep-alive, 75 s later, with three tasks.

This is also the clock for the deadlines of all connections: once a second, each checks what takes too long, including
idleness. Like the package itself, which checks the version, this replaces a name in a module of Hypercorn. Knows
neither HTTP nor the applications.
"""

import asyncio
import fcntl
import struct
import sys
import termios
from contextlib import suppress
from socket import IPPROTO_TCP, TCP_INFO, socket
from typing import Final

from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Event, RawData, Updated

from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.server.asgi.refusals import Reason
from miniqueue.server.asgi.request import ACCOUNT_KEY
from miniqueue.server.hypercorn.limits import (
    CHECK_SECONDS,
    CONNECTION_BYTES,
    MAX_UNREAD_BYTES,
    WRITE_SECONDS,
    Stillness,
    limits_of,
)
from miniqueue.server.security.certificate_reading import STATE_KEY, subject_of

#: Maximum time for the client to read the last bytes and answer the end of TLS. A stop waits for this, so it must be
#: well under the duration of a stop.
CLOSE_SECONDS = 3.0
#: Maximum time for the answer of a client that has the last bytes; also the interval of checks for whether it has them.
ANSWER_SECONDS = 0.25
#: The part of `struct tcp_info` up to `tcpi_last_data_recv`, which is in milliseconds.
_LAST_RECEIVED: Final = struct.Struct("=52xI")


def install() -> None:
    """Make Hypercorn use the repaired connection; safe to call again."""
    run.TCPServer = GuardedConnection  # type: ignore[attr-defined] # a repair from outside


class GuardedConnection(TCPServer):
    """A connection that is aborted if closing it takes too long, and that ends when its client has disconnected."""

    _is_gone = False
    _is_idle = True
    _idle_count = 0
    _begun_writes = 0
    _ended_writes = 0
    _silence: asyncio.TimerHandle | None = None
    _account: MemoryAccount

    async def run(self) -> None:
        """Serve the connection until it ends.

        A stop cancels this after a while. It then returns normally: Python 3.11 would log a cancelled connection as an
        error.
        """
        if subject := subject_of(self.writer.get_extra_info("ssl_object")):
            self.state = {**self.state, STATE_KEY: subject}
        limits = limits_of(self.config)
        peer = self.writer.get_extra_info("peername")
        self._account = limits.memory.connect(peer[0] if peer else "?")
        self._account.add(Purpose.CONNECTIONS, CONNECTION_BYTES)
        self.state = {**self.state, ACCOUNT_KEY: self._account}
        if limits.is_memory_full or self._account.owner.is_crowd_over:
            limits.refusals.count(Reason.MEMORY, peer)
            self._account.close()
            self.writer.transport.abort()
            return
        self.writer.transport.set_write_buffer_limits(MAX_UNREAD_BYTES)
        self._writing = Stillness()
        self._idling = Stillness()
        self._check_later()
        try:
            with suppress(asyncio.CancelledError):
                await limits.beginnings.turn()
                if not self.writer.transport.is_closing():  # the client may have left meanwhile
                    await super().run()
        finally:
            self._next_check.cancel()
            self._account.close()
            if self._silence is not None:
                self._silence.cancel()

    async def protocol_send(self, event: Event) -> None:
        """Write, close, or record whether there is a request; the last only while the client is connected.

        Hypercorn begins a task with a timer whenever the last request ends, and cancels it when the next one arrives:
        with one request at a time, that was a fifth of the cost of a request.
        """
        if isinstance(event, RawData):
            if self.writer.transport.is_closing():
                return  # no client would read it, and asyncio's TLS has no transport to write to
            self._begun_writes += 1
            charged_bytes = len(event.data) if len(event.data) > MAX_UNREAD_BYTES else 0
            if charged_bytes:
                self._account.add(Purpose.OUTPUT, charged_bytes)
            try:
                await super().protocol_send(event)
            finally:
                self._ended_writes += 1
                if charged_bytes:
                    self._account.add(Purpose.OUTPUT, -charged_bytes)
        elif not isinstance(event, Updated):
            await super().protocol_send(event)
        elif not self._is_gone:
            self._is_idle = event.idle
            self._idle_count += event.idle
            if event.idle and self.context.terminated.is_set():
                await super().protocol_send(event)

    def _check_later(self) -> None:
        self._next_check = self.loop.call_later(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """End operations for which the client takes too long; called once a second."""
        self._check_later()
        now_seconds = self.loop.time()
        is_waiting = self._begun_writes > self._ended_writes
        still_seconds = self._writing.age(self._ended_writes if is_waiting else None, now_seconds)
        if still_seconds >= WRITE_SECONDS:
            limits_of(self.config).refusals.count(Reason.SLOW_CONNECTION, self.protocol.client)
            self.writer.transport.abort()
        elif not self._is_gone and hasattr(self, "protocol"):  # missing if the client disconnected at once
            self.protocol.protocol.check_deadlines(now_seconds)  # type: ignore[union-attr] # one of our classes
            if self._idling.age(self._idle_count if self._is_idle else None, now_seconds) >= self._idle_seconds:
                self._idling = Stillness()
                self._task_group.spawn(self._initiate_server_close)

    @property
    def _idle_seconds(self) -> float:
        """Maximum time of an idle connection, less the delay of the checks at its begin and end."""
        return self.config.keep_alive_timeout - CHECK_SECONDS

    async def _idle_timeout(self) -> None:
        """Close an idle connection when the server stops; a request in progress does that when it ends."""
        await self.context.terminated.wait()
        if self._is_idle:
            await asyncio.shield(self._initiate_server_close())

    async def _read_data(self) -> None:
        await super()._read_data()
        self._is_gone = True
        await self.idle_task.stop()

    async def _close(self) -> None:
        self._abort_later()
        with suppress(OSError):  # a client that sends data after the end of TLS violates its rules
            await super()._close()

    async def _initiate_server_close(self) -> None:
        self._abort_later()
        await super()._initiate_server_close()

    def _abort_later(self) -> None:
        self.loop.call_later(CLOSE_SECONDS, self.writer.transport.abort)
        if not self.writer.transport.is_closing():
            self._check_silence_later(self.writer.get_extra_info("socket"))

    def _check_silence_later(self, connection: socket) -> None:
        self._silence = self.loop.call_later(ANSWER_SECONDS, self._abort_if_silent, connection)

    def _abort_if_silent(self, connection: socket) -> None:
        """Abort the connection of a client that has all data and does not answer, such as a stopped process.

        A client that still sends the body of a request that was answered early may read the reply only after it.
        """
        with suppress(OSError, ValueError):  # the connection is closed
            if _unacknowledged_bytes(connection.fileno()) or _silent_seconds(connection) < ANSWER_SECONDS:
                self._check_silence_later(connection)
            else:
                self.writer.transport.abort()


def _unacknowledged_bytes(descriptor: int) -> int:
    """Return the number of sent bytes that the client's kernel has not acknowledged; see tcp(7)."""
    answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(struct.calcsize("i")))
    return int.from_bytes(answer, sys.byteorder)


def _silent_seconds(connection: socket) -> float:
    """Return the time since the last data from the client; see tcp(7)."""
    milliseconds: int = _LAST_RECEIVED.unpack(connection.getsockopt(IPPROTO_TCP, TCP_INFO, _LAST_RECEIVED.size))[0]
    return milliseconds / 1000
