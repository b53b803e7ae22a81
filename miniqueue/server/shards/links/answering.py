"""The end of a link at which commands of another process arrive: carried out one after the other, answered in order."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import hiredis
import structlog

from miniqueue.wire import resp_replies as replies
from miniqueue.wire.resp_parser import Command

log = structlog.get_logger()

#: Carries a command out; returns the reply.
Answer = Callable[[Command], Awaitable[bytes]]


class Answering(asyncio.Protocol):
    """Answers commands, and PING, by which the other end recognizes the end of the replies.

    Args:
      answer: carries out the commands.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._reader = hiredis.Reader(notEnoughData=None)
        self._commands: deque[Command] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Carry out each command after those before it."""
        self._reader.feed(data)
        while (command := self._reader.gets()) is not None:
            self._commands.append(command)
        if self._commands and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._carry_out())

    def connection_lost(self, exc: Exception | None) -> None:
        """Begin no further command, and answer none: the other process has ended, and sends them again."""
        self._is_lost = True
        self._commands.clear()

    def abort(self) -> None:
        """End the link, and begin no command that has come over it."""
        self.connection_lost(None)
        self._transport.abort()

    async def _carry_out(self) -> None:
        try:
            while self._commands:
                command = self._commands.popleft()
                reply = replies.bulk(command[1]) if command[0] == b"PING" else await self._answer(command)
                if not self._is_lost:
                    self._transport.write(reply)
        except Exception:
            log.exception("a command of another shard could not be carried out")
            self._transport.abort()
