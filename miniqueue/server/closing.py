"""Repairs of Hypercorn 0.18.0: a connection that is closed ends within a time, whatever the client does.

TLS says goodbye and waits for the answer, and so does a stop of the whole server: one client that keeps a connection
and does not read it held the process for half a minute after SIGTERM. And a connection that the client closes while it
is idle stayed in memory until the end of its keep-alive, 75 s later, with three tasks. Like `h2guard`, which checks the
version, this replaces a name in a module of Hypercorn. Knows neither HTTP nor the applications.
"""

import asyncio
from contextlib import suppress

from hypercorn.asyncio import run
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Event, Updated

#: For the client to take the last bytes and answer the goodbye; a stop waits for it, so it must be well under that.
CLOSE_SECONDS = 3.0


def install() -> None:
    """Make Hypercorn use the repaired connection; safe to call again."""
    run.TCPServer = GuardedConnection  # type: ignore[attr-defined] # a repair from outside


class GuardedConnection(TCPServer):
    """A connection that is cut off when closing it takes too long, and that is over when its client is gone."""

    _is_gone = False

    async def run(self) -> None:
        """Serve it to its end.

        A stop that has waited long enough cancels this. It ends in good order then: Python 3.11 would log a
        connection that was cancelled as an error.
        """
        with suppress(asyncio.CancelledError):
            await super().run()

    async def protocol_send(self, event: Event) -> None:
        """Write, close, or watch for idleness; the last only while there is a client."""
        if not (self._is_gone and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _read_data(self) -> None:
        await super()._read_data()
        self._is_gone = True
        await self.idle_task.stop()

    async def _close(self) -> None:
        self._cut_off_later()
        await super()._close()

    async def _initiate_server_close(self) -> None:
        self._cut_off_later()
        await super()._initiate_server_close()

    def _cut_off_later(self) -> None:
        self.loop.call_later(CLOSE_SECONDS, self.writer.transport.abort)
