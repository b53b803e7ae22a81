"""Shares the event loop between HTTP/2 connections that have received many frames at the same time.

    read ─▶ a group of frames ─▶ requests, whose applications run in the next iteration
               └─ enough groups in this iteration ─▶ wait ─▶ a few connections per iteration, first come, first served

An iteration is as long as everything that became ready in it: eight connections with 99 requests each, all started at
once, held the loop for 50 ms.

Knows no frames. Not safe for use by several threads.
"""

import asyncio
from collections import deque
from typing import Final

#: How many frames all connections process in an iteration before others must wait for the next one.
FRAMES_IN_TURN: Final = 16
#: How many of the connections that wait may continue in an iteration.
CONNECTIONS_IN_TURN: Final = 2


class FrameTurns:
    """Counts the frames of each iteration of the event loop, and lets connections wait for another one."""

    __slots__ = ("_count", "_is_next_due", "_waiting")

    def __init__(self) -> None:
        self._count = 0
        self._is_next_due = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_over(self) -> bool:
        """Whether a connection has to `wait` before it processes frames."""
        return self._count >= FRAMES_IN_TURN or bool(self._waiting)

    async def wait(self) -> None:
        """Return in an iteration in which this connection may process frames."""
        self._waiting.append(turn := asyncio.get_running_loop().create_future())
        await turn

    def used(self, frame_count: int) -> None:
        """Count frames that have been processed in this iteration."""
        self._count += frame_count
        if not self._is_next_due:
            self._schedule()

    def _schedule(self) -> None:
        self._is_next_due = True
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._count, self._is_next_due = 0, False
        admitted_count = 0
        while self._waiting and admitted_count < CONNECTIONS_IN_TURN:
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise the connection has ended meanwhile
                turn.set_result(None)
                admitted_count += 1
        if self._waiting:
            self._schedule()
