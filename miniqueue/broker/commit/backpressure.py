"""Backpressure: makes publishers wait while too many bytes are uncommitted.

    publish ─▶ must_wait? ─ no ─▶ the open commit
                  └ yes ─▶ queue ─▶ a commit is done ─▶ room? ─ yes ─▶ the open commit ─▶ the next in the queue …

Bounds memory use and commit size, whatever the number of clients. Only publishes wait. The limit can be exceeded
by at most one message, or by one pipelined run of small messages.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from miniqueue.broker.commit.journal import Committer
from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.broker.model.new_partitions import PartitionsDueError

T = TypeVar("T")


class Backpressure:
    """Admits publishes, first come, first served, within a limit on the uncommitted bytes of all clients.

    Args:
      committer: runs the commits.
      max_bytes: maximum size of uncommitted payloads; 0 means unlimited.
      counts: counts how often a publish had to wait.
      make_spare: makes the partitions that a publish lacks whose topic is new; see `PartitionMaker`.
    """

    def __init__(
        self,
        committer: Committer,
        max_bytes: int,
        counts: LimitCounts,
        make_spare: Callable[[PartitionsDueError], Awaitable[None]],
    ) -> None:
        self._committer = committer
        self._max_bytes = max_bytes or sys.maxsize
        self._counts = counts
        self._make_spare = make_spare
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def must_wait(self) -> bool:
        """Whether a new publish must wait for room, or for publishes that are already waiting."""
        if self._waiting:
            return True
        committer = self._committer  # inlines `_has_room`: this runs for every publish
        older, last = committer.begun
        return committer.open.size_bytes + last.size_bytes + older.size_bytes > self._max_bytes

    def call_when_room(self, act: Callable[[], None]) -> None:
        """Queue `act`, and call it when there is room, before every act that is queued later."""
        self._counts.reached(Limit.UNCOMMITTED)
        self._waiting.append(act)
        if len(self._waiting) == 1:
            self._admit_after_commit()

    async def admit(self, act: Callable[[], T]) -> T:
        """Call `act` as soon as there is room; return its result or raise its exception.

        `act` runs synchronously when there is room, so the next publish in the queue sees the bytes that it added. If
        it creates a topic with many partitions, it is called again when they have been made.
        """
        while True:
            try:
                return await self._act(act)
            except PartitionsDueError as due:
                await self._make_spare(due)

    async def _act(self, act: Callable[[], T]) -> T:
        if not self.must_wait:
            return act()
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.call_when_room(lambda: _call(result, act))
        return await result

    def _has_room(self) -> bool:
        return self._committer.waiting_bytes <= self._max_bytes

    def _admit_after_commit(self) -> None:
        self._committer.open.add_listener(self._admit_waiting)
        self._committer.request()

    def _admit_waiting(self) -> None:
        try:
            while self._waiting and self._has_room():
                self._waiting.popleft()()
        finally:  # even if a call fails, the rest of the queue waits for the next commit
            if self._waiting:
                self._admit_after_commit()


def _call(result: "asyncio.Future[T]", act: Callable[[], T]) -> None:
    if result.done():  # the waiting task was cancelled
        return
    try:
        result.set_result(act())
    except Exception as exc:
        result.set_exception(exc)
