"""Closes RESP connections that have been idle for too long.

A connection is active when a command is carried out, so the bytes of a command that never ends do not keep it open. A
client that is subscribed or waits for a reply is not idle. A client that does not read its replies is idle, even after
QUIT. Knows no commands.
"""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

import structlog

from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.server.process.repeats import LogRateLimit
from miniqueue.server.resp.shared import Connection

log = structlog.get_logger()

#: Connections that are checked before other work continues: a thousand take about a millisecond.
CONNECTIONS_IN_TURN = 500
#: Maximum time between two checks; a connection is closed that much too late at most.
MAX_LOOK_SECONDS = 60.0
#: Minimum time between two log entries about checks that failed.
LOG_INTERVAL_SECONDS = 60.0


class IdleWatch:
    """Checks connections periodically, and closes those that are idle.

    Args:
      connections: returns the open connections.
      idle_seconds: how long a connection may be idle; it is closed up to a quarter of this later, at most a minute.
      counts: counts the connections that are closed.
      monotonic: a clock that never goes back, in seconds.
    """

    def __init__(
        self,
        connections: Callable[[], list[Connection]],
        idle_seconds: float,
        counts: LimitCounts,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._counts = counts
        self._monotonic = monotonic
        self._seen: WeakKeyDictionary[Connection, tuple[int, float]] = (
            WeakKeyDictionary()
        )  # command count, and since when

    async def run(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Check forever, even if checks fail; log failures at most once a minute."""
        log_limit = LogRateLimit(LOG_INTERVAL_SECONDS, self._monotonic)
        while True:
            await sleep(min(self._idle_seconds / 4, MAX_LOOK_SECONDS))
            try:
                await self.look()
            except Exception:
                held_back = log_limit.admit("look")
                if held_back is not None:
                    log.exception("could not look for idle connections", held_back=held_back)

    async def look(self) -> None:
        """Close the connections that have been idle for too long."""
        for number, connection in enumerate(self._connections()):
            if number % CONNECTIONS_IN_TURN == CONNECTIONS_IN_TURN - 1:
                await asyncio.sleep(0)
            if self._is_idle(connection):
                self._counts.reached(Limit.IDLE_TIMEOUT)
                connection.leave()
                connection.close_soon()

    def _is_idle(self, connection: Connection) -> bool:
        now_seconds = self._monotonic()
        count, since_seconds = self._seen.get(connection, (-1, now_seconds))
        if connection.is_waiting or connection.command_count != count:
            self._seen[connection] = connection.command_count, now_seconds
            return False
        return now_seconds - since_seconds >= self._idle_seconds
