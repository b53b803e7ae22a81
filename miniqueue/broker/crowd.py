"""Keeps the next commit small: who publishes while very much waits for its commit waits too, first come, first served.

    publish ─▶ is_there? ─ no ─▶ the open commit
                  └ yes ─▶ queue ─▶ a commit is done ─▶ room? ─ yes ─▶ the open commit ─▶ the next in the queue …

So memory and the length of a commit are bounded whatever the number of clients. Only publishes wait; that of one client
is at most one message, or one run of small ones, beyond the limit.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from miniqueue.broker.commit import Committer
from miniqueue.broker.limits import Limit, LimitCounts

T = TypeVar("T")


class Crowd:
    """What waits for its commit, all clients together.

    Args:
      committer: runs the commits.
      max_bytes: of payloads; 0 for no limit.
      counts: where it is counted that somebody had to wait.
    """

    def __init__(self, committer: Committer, max_bytes: int, counts: LimitCounts) -> None:
        self._committer = committer
        self._max_bytes = max_bytes or sys.maxsize
        self._counts = counts
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_there(self) -> bool:
        """Whether who publishes must wait: for room, or for those who came before."""
        committer = self._committer  # as `_has_room`, but asked for each publish: without a call
        older, last = committer.begun
        waiting_bytes = committer.open.size_bytes + last.size_bytes + older.size_bytes
        return bool(self._waiting) or waiting_bytes > self._max_bytes

    def when_gone(self, act: Callable[[], None]) -> None:
        """Call `act` when there is room, before those who ask later."""
        self._counts.reached(Limit.UNCOMMITTED)
        self._waiting.append(act)
        if len(self._waiting) == 1:
            self._look_later()

    async def admit(self, act: Callable[[], T]) -> T:
        """Return what `act` returns, or raise what it raises: now, or when there is room.

        It is called the moment there is room, so that the next in the queue sees what it has published.
        """
        if not self.is_there:
            return act()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.when_gone(lambda: _act_for(result, act))
        return await result

    def _has_room(self) -> bool:
        return self._committer.waiting_bytes <= self._max_bytes

    def _look_later(self) -> None:
        self._committer.open.add_listener(self._look)
        self._committer.request()

    def _look(self) -> None:
        try:
            while self._waiting and self._has_room():
                self._waiting.popleft()()
        finally:  # also when one of them fails: those behind it wait for the next commit
            if self._waiting:
                self._look_later()


def _act_for(result: "asyncio.Future[T]", act: Callable[[], T]) -> None:
    if result.done():  # whoever waited has given up
        return
    try:
        result.set_result(act())
    except Exception as exc:
        result.set_exception(exc)
