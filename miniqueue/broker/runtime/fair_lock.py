"""A lock that those who wait for it get in rounds: one for each key, and for each key first come, first served.

    a a a a b    ─▶ a b a a a     so whoever waits often does not make others wait longer

Not safe for use by several threads.
"""

import asyncio
from collections import deque
from collections.abc import Hashable


class FairLock:
    """A lock for tasks; it is released by whoever was the last to acquire it."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # futures; the first key has the next turn

    async def acquire(self, key: Hashable) -> None:
        """Return when the caller has the lock; it waits with the others of its key."""
        if not self._is_held:
            self._is_held = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had the lock already
                self.release()
            raise

    def release(self) -> None:
        """Give the lock to the next who waits."""
        while self._waiting:
            key = next(iter(self._waiting))
            turns = self._waiting.pop(key)
            turn = turns.popleft()
            if turns:
                self._waiting[key] = turns  # after the others
            if not turn.done():  # otherwise whoever waited was cancelled
                turn.set_result(None)
                return
        self._is_held = False
