"""RESP connections on which nothing happens: ended after a while.

What happens is a command that was carried out, so bytes of a command that never ends do not help. Who is subscribed
waits for messages and is not idle, nor is who waits for a reply; who does not take its replies is, also when it has
said goodbye. Does not know what a command is.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from miniqueue.broker.limits import Limit, LimitCounts

if TYPE_CHECKING:
    from miniqueue.server.resp import RespConnection

#: A look at a thousand connections takes about a millisecond; then it is the turn of others.
CONNECTIONS_IN_TURN = 500
MAX_LOOK_SECONDS = 60.0


class IdleWatch:
    """Looks at connections now and then.

    Args:
      connections: returns those that there are.
      idle_seconds: after so long a connection is ended, and a quarter more, or a minute if that is less.
      counts: where that is counted.
      monotonic: the clock, in seconds.
    """

    def __init__(
        self,
        connections: "Callable[[], list[RespConnection]]",
        idle_seconds: float,
        counts: LimitCounts,
        monotonic: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._counts = counts
        self._monotonic = monotonic
        self._seen: WeakKeyDictionary[RespConnection, tuple[int, float]] = WeakKeyDictionary()  # commands, since when

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(min(self._idle_seconds / 4, MAX_LOOK_SECONDS))
            await self.look()

    async def look(self) -> None:
        """End whoever has been idle for too long."""
        for number, connection in enumerate(self._connections()):
            if number % CONNECTIONS_IN_TURN == CONNECTIONS_IN_TURN - 1:
                await asyncio.sleep(0)
            if self._is_idle(connection):
                self._counts.reached(Limit.IDLE_TIMEOUT)
                connection.leave()
                connection.close_soon()

    def _is_idle(self, connection: "RespConnection") -> bool:
        now_seconds = self._monotonic()
        count, since_seconds = self._seen.get(connection, (-1, now_seconds))
        if connection.is_waiting or connection.command_count != count:
            self._seen[connection] = connection.command_count, now_seconds
            return False
        return now_seconds - since_seconds >= self._idle_seconds
