"""Shares the event loop between RESP connections that have more commands than fit into one iteration.

    read ─▶ a few commands ──────────────────────────────▶ carried out at once
       └──▶ more ─▶ as many as there is time for ─▶ queue ─▶ a share of each turn, one connection after the other

A turn is the part of one event-loop iteration in which queued connections work. All of them together get a bounded
time, however many they are and however long one command takes; between turns the bytes of every connection are read. A
client that sends a few commands and waits for the replies never queues. While there is such a client, of RESP or of
HTTP, turns are shorter, because a publish takes six iterations until it is answered. None begins while publishes are
gathered for a commit, so a publish meets two turns; with one in each iteration, it met seven.

A turn is a slice of a `TimeShare`: if others have work, they get three times as long as the turn took before the next
one begins. So a command that takes longer than a turn, as a list of all topics does, makes its connection wait.

Knows no commands and no bytes. Not safe for use by several threads.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from miniqueue.broker.runtime.share import Others, TimeShare

#: Default length of a turn, for all connections together. A turn with nothing to do takes 10 to 20 us.
TURN_SECONDS: Final = 0.002
#: The part of a turn that is used while other clients wait for the reply to one command.
SHORT_PART: Final = 0.125
#: Such a client counts for this many turns.
SHORT_TURNS: Final = 64
#: Minimum share of one connection, unless the turn itself is shorter: with more than four connections, some wait for
#: another turn. Going from one connection to the next takes as long as some commands do; with a fifth of this minimum,
#: PUB in pipelines of 256 was 15 % slower.
MIN_SHARE_SECONDS: Final = 0.0005
#: Maximum number of commands in one read that are carried out without measuring the time.
FEW_COMMANDS: Final = 16

#: Works until a time of `LoopShare.clock`, and queues again if there is more to do.
GoOn = Callable[[float], None]


class LoopShare:
    """Gives each connection that queues its share of a turn.

    Args:
      turn_seconds: length of a turn for all connections together, while no other client waits.
      clock: a clock that never goes back, in seconds.
      is_gathering: whether publishes are being gathered for a commit.
      others: whether other clients wait for the reply to one command or request.
    """

    def __init__(
        self,
        turn_seconds: float = TURN_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
        is_gathering: Callable[[], bool] = lambda: False,
        others: Others | None = None,
    ) -> None:
        self.clock = clock
        self.others = others or Others()
        self._waiting: deque[GoOn] = deque()
        self._turn_seconds = turn_seconds
        self._ends_at = 0.0
        self._short_turns_left = 0
        self._is_next_due = False
        self._is_gathering = is_gathering
        self._share = TimeShare(clock)

    @property
    def is_over(self) -> bool:
        """Whether this turn has no time left."""
        return self._is_next_due and self.clock() >= self._ends_at

    def ends_at(self) -> float:
        """Return until when commands that have just been read are carried out in this turn."""
        if not self._is_next_due:
            self._schedule()
            self._ends_at = self.clock() + self._seconds()
        return self._ends_at

    def queue(self, go_on: GoOn) -> None:
        """Call `go_on` in one of the next turns, with the end of its share."""
        self._waiting.append(go_on)
        if not self._is_next_due:
            self._schedule()

    def _schedule(self) -> None:
        self._is_next_due = True
        asyncio.get_running_loop().call_soon(self._begin)

    def _seconds(self) -> float:
        if self.others.are_waiting:
            self.others.are_waiting, self._short_turns_left = False, SHORT_TURNS
        return self._turn_seconds * (SHORT_PART if self._short_turns_left else 1.0)

    def _is_busy(self) -> bool:
        """Whether a client waits for a publish that is part of the next commit."""
        return (self.others.are_waiting or self._short_turns_left > 0) and self._is_gathering()

    def _begin(self) -> None:
        self._is_next_due = False
        if not self._waiting:
            return
        self._schedule()
        now = begun_at = self.clock()
        if self._share.is_for_others(is_busy=self._is_busy()):
            return
        self._ends_at = now + self._seconds()
        self._short_turns_left = max(0, self._short_turns_left - 1)
        for remaining in range(len(self._waiting), 0, -1):  # a connection that queues again comes after the others
            share = max((self._ends_at - now) / remaining, MIN_SHARE_SECONDS)
            self._waiting.popleft()(min(now + share, self._ends_at))
            now = self.clock()
            if now >= self._ends_at:
                break
        self._share.used(begun_at)
