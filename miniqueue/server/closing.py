"""Repairs of Hypercorn 0.18.0: a connection that is closed ends within a time, whatever the client does.

TLS says goodbye and waits for the answer, and so does a stop of the whole server: one client that keeps a connection
and does not read it held the process for half a minute after SIGTERM. So who has all that was sent is not waited for,
as its kernel tells. And a connection that the client closes while it
is idle stayed in memory until the end of its keep-alive, 75 s later, with three tasks. Here is also the clock for the
deadlines of all connections: once a second each is asked for what takes too long, idleness included. Like `h2guard`,
which checks the version, this replaces a name in a module of Hypercorn. Knows neither HTTP nor the applications.
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

from miniqueue.server.client_certificates import STATE_KEY, subject_of
from miniqueue.server.h2guard.deadlines import LOOK_SECONDS, WRITE_SECONDS, Stillness
from miniqueue.server.h2guard.limits import limits_of
from miniqueue.server.refusals import Reason

#: For the client to take the last bytes and answer the goodbye; a stop waits for it, so it must be well under that.
CLOSE_SECONDS = 3.0
#: For who has the last bytes to answer; whether it has them is looked at as often.
ANSWER_SECONDS = 0.25
#: Of `struct tcp_info`: what is before `tcpi_last_data_recv`, in milliseconds, and that.
_LAST_RECEIVED: Final = struct.Struct("=52xI")


def install() -> None:
    """Make Hypercorn use the repaired connection; safe to call again."""
    run.TCPServer = GuardedConnection  # type: ignore[attr-defined] # a repair from outside


class GuardedConnection(TCPServer):
    """A connection that is cut off when closing it takes too long, and that is over when its client is gone."""

    _is_gone = False
    _is_idle = True
    _idle_count = 0
    _begun_writes = 0
    _ended_writes = 0
    _silence: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Serve it to its end.

        A stop that has waited long enough cancels this. It ends in good order then: Python 3.11 would log a
        connection that was cancelled as an error.
        """
        if subject := subject_of(self.writer.get_extra_info("ssl_object")):
            self.state = {**self.state, STATE_KEY: subject}
        self._writing = Stillness()
        self._idling = Stillness()
        self._look_later()
        try:
            with suppress(asyncio.CancelledError):
                await super().run()
        finally:
            self._next_look.cancel()
            if self._silence is not None:
                self._silence.cancel()

    async def protocol_send(self, event: Event) -> None:
        """Write, close, or note whether there is a request; the last only while there is a client.

        Hypercorn begins a task with a timer whenever the last request ends, and cancels it when the next one comes:
        with one request at a time that was a fifth of what it cost.
        """
        if isinstance(event, RawData):
            if self.writer.transport.is_closing():
                return  # nobody is there to take it, and asyncio's TLS has no transport to write to
            self._begun_writes += 1
            try:
                await super().protocol_send(event)
            finally:
                self._ended_writes += 1
        elif not isinstance(event, Updated):
            await super().protocol_send(event)
        elif not self._is_gone:
            self._is_idle = event.idle
            self._idle_count += event.idle
            if event.idle and self.context.terminated.is_set():
                await super().protocol_send(event)

    def _look_later(self) -> None:
        self._next_look = self.loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Once a second: end what takes the client too long."""
        self._look_later()
        now_seconds = self.loop.time()
        is_waiting = self._begun_writes > self._ended_writes
        still_seconds = self._writing.age(self._ended_writes if is_waiting else None, now_seconds)
        if still_seconds >= WRITE_SECONDS:
            limits_of(self.config).refusals.count(Reason.SLOW_CONNECTION, self.protocol.client)
            self.writer.transport.abort()
        elif not self._is_gone and hasattr(self, "protocol"):  # else the client left before anything had begun
            self.protocol.protocol.look(now_seconds)  # type: ignore[union-attr] # `h2guard` has put its own there
            if self._idling.age(self._idle_count if self._is_idle else None, now_seconds) >= self._idle_seconds:
                self._idling = Stillness()
                self._task_group.spawn(self._initiate_server_close)

    @property
    def _idle_seconds(self) -> float:
        """How long a connection may be idle; less what a look may be late at both ends."""
        return self.config.keep_alive_timeout - LOOK_SECONDS

    async def _idle_timeout(self) -> None:
        """Close the connection when the server stops; a request that is under way then does this at its end."""
        await self.context.terminated.wait()
        if self._is_idle:
            await asyncio.shield(self._initiate_server_close())

    async def _read_data(self) -> None:
        await super()._read_data()
        self._is_gone = True
        await self.idle_task.stop()

    async def _close(self) -> None:
        self._cut_off_later()
        with suppress(OSError):  # a client that sends on after the goodbye breaks TLS's rules, not ours
            await super()._close()

    async def _initiate_server_close(self) -> None:
        self._cut_off_later()
        await super()._initiate_server_close()

    def _cut_off_later(self) -> None:
        self.loop.call_later(CLOSE_SECONDS, self.writer.transport.abort)
        if not self.writer.transport.is_closing():
            self._look_for_silence(self.writer.get_extra_info("socket"))

    def _look_for_silence(self, connection: socket) -> None:
        self._silence = self.loop.call_later(ANSWER_SECONDS, self._cut_off_if_silent, connection)

    def _cut_off_if_silent(self, connection: socket) -> None:
        """Wait no longer for who has everything and does not answer, such as a process that is stopped.

        Who still sends the body of a request that was answered early may look for the answer behind it.
        """
        with suppress(OSError, ValueError):  # it is closed
            if _unacknowledged_bytes(connection.fileno()) or _silent_seconds(connection) < ANSWER_SECONDS:
                self._look_for_silence(connection)
            else:
                self.writer.transport.abort()


def _unacknowledged_bytes(descriptor: int) -> int:
    """Return how many bytes of what was sent the kernel at the other end has not acknowledged; see tcp(7)."""
    answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(struct.calcsize("i")))
    return int.from_bytes(answer, sys.byteorder)


def _silent_seconds(connection: socket) -> float:
    """Return how long nothing has come from the other end; see tcp(7)."""
    milliseconds: int = _LAST_RECEIVED.unpack(connection.getsockopt(IPPROTO_TCP, TCP_INFO, _LAST_RECEIVED.size))[0]
    return milliseconds / 1000
