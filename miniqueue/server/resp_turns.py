"""Whose turn it is: RESP connections that have more to do than fits into one turn of the event loop.

    read ─▶ a few commands ──────────────────────────────▶ carried out at once
       └──▶ more ─▶ as many as there is time for ─▶ queue ─▶ a share of each turn, one connection after the other

So a turn takes a bounded time for all who have much, whatever the number of connections and however long one command
takes; in between everybody's bytes are read. Who sends a few commands and waits for the replies never queues. While
there is such a one, turns are shorter: a publish takes six of them until it is answered.

Knows no commands and no bytes. Not for use by several threads.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

#: For all connections together, unless it is set otherwise. A turn with nothing to do takes 10 to 20 us.
TURN_SECONDS: Final = 0.002
#: As much of it is left to those who have much while somebody else is there.
SHORT_PART: Final = 0.125
#: Somebody was there in as many turns before.
SHORT_TURNS: Final = 64
#: No share is shorter, but for that of a turn that is: beyond four connections some wait for another turn. To go from
#: one to the next takes as long as some commands do; with a fifth of this, PUB in pipelines of 256 was 15 % slower.
MIN_SHARE_SECONDS: Final = 0.0005
#: So many commands of one read are not measured.
FEW_COMMANDS: Final = 16

#: Works until the time it is given, of the clock of the turns, and queues again if there is more.
GoOn = Callable[[float], None]


class Turns:
    """Shares the turns of the loop that it is first used in.

    Args:
      turn_seconds: for all connections together, as long as nobody else is there.
      clock: in seconds; it never goes back.

    Attributes:
      has_others: whether somebody sent one command only; set by who sees it.
    """

    def __init__(self, turn_seconds: float = TURN_SECONDS, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.has_others = False
        self._waiting: deque[GoOn] = deque()
        self._turn_seconds = turn_seconds
        self._ends_at = 0.0
        self._short_turns_left = 0
        self._is_next_due = False

    @property
    def is_over(self) -> bool:
        """Whether this turn has no time left."""
        return self._is_next_due and self.clock() >= self._ends_at

    def ends_at(self) -> float:
        """Return until when work may go on, in this turn, that has just been read."""
        if not self._is_next_due:
            self._schedule()
            self._ends_at = self.clock() + self._seconds()
        return self._ends_at

    def queue(self, go_on: GoOn) -> None:
        """Have `go_on` called in one of the next turns, with its share."""
        self._waiting.append(go_on)
        if not self._is_next_due:
            self._schedule()

    def _schedule(self) -> None:
        self._is_next_due = True
        asyncio.get_running_loop().call_soon(self._begin)

    def _seconds(self) -> float:
        if self.has_others:
            self.has_others, self._short_turns_left = False, SHORT_TURNS
        return self._turn_seconds * (SHORT_PART if self._short_turns_left else 1.0)

    def _begin(self) -> None:
        self._is_next_due = False
        if not self._waiting:
            return
        self._schedule()
        now = self.clock()
        self._ends_at = now + self._seconds()
        self._short_turns_left = max(0, self._short_turns_left - 1)
        for left in range(len(self._waiting), 0, -1):  # who queues again is behind the others
            share = max((self._ends_at - now) / left, MIN_SHARE_SECONDS)
            self._waiting.popleft()(min(now + share, self._ends_at))
            now = self.clock()
            if now >= self._ends_at:
                break
