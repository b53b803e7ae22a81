"""Whose turn it is: RESP connections that have more to do than fits into one turn of the event loop.

    read ─▶ a few commands ──────────────────────────────────▶ carried out at once
       └──▶ more ─▶ as many as the turn has room for ─▶ queue ─▶ a share of each turn, one connection after the other

So a turn carries out a bounded number of commands for all who have many, whatever the number of connections; in
between everybody's bytes are read. Who sends a few commands and waits for the replies never queues.

Knows no commands and no bytes. Not for use by several threads.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

#: For all connections together, unless it is set otherwise. A run of PUBLISH is one command.
MAX_COMMANDS_IN_TURN: Final = 512
#: At least so many are a share; beyond four connections some wait for another turn.
MIN_SHARE: Final = 128
#: So many commands of one read are not counted.
FEW_COMMANDS: Final = 16

#: Carries out no more commands than it is given, and queues again if it has more.
GoOn = Callable[[int], None]


class Turns:
    """Shares the turns of the loop that it is first used in.

    Args:
      max_commands: in a turn, for all connections together; at least 1.
    """

    def __init__(self, max_commands: int = MAX_COMMANDS_IN_TURN) -> None:
        self._waiting: deque[GoOn] = deque()
        self._max_commands = max_commands
        self._room = max_commands
        self._is_next_due = False

    def take(self, wanted: int) -> int:
        """Return how many of `wanted` commands, just read, may be carried out in this turn."""
        taken = min(wanted, self._room)
        self._room -= taken
        self._schedule()
        return taken

    def queue(self, go_on: GoOn) -> None:
        """Have `go_on` called in one of the next turns, with its share."""
        self._waiting.append(go_on)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_next_due = False
        self._room = self._max_commands
        now = min(len(self._waiting), max(1, self._max_commands // MIN_SHARE))
        for _ in range(now):  # who queues again is behind the others
            self._room -= self._max_commands // now
            self._waiting.popleft()(self._max_commands // now)
        if self._waiting:
            self._schedule()
