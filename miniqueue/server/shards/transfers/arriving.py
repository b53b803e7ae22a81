"""The end of a link at which parcels arrive; they are taken one after the other, and answered in order."""

import asyncio
from collections import deque
from typing import cast

import hiredis
import structlog

from miniqueue.broker.inbox.inbox import Inbox
from miniqueue.errors import MiniqueueError
from miniqueue.server.shards.transfers.sending import WORD, decode_parcel, encode_taken
from miniqueue.wire import resp_replies as replies

log = structlog.get_logger()


class Arriving(asyncio.Protocol):
    """Takes the parcels of another shard.

    Args:
      inbox: takes them.
      source: the number of the other shard.
    """

    def __init__(self, inbox: Inbox, source: int) -> None:
        self._inbox = inbox
        self._source = source
        self._reader = hiredis.Reader(notEnoughData=None)
        self._commands: deque[list[bytes]] = deque()
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
        """Take no more parcels, and answer none: the other process has ended, and sends them again."""
        self._is_lost = True
        self._commands.clear()

    async def _carry_out(self) -> None:
        try:
            while self._commands:
                word, *words = self._commands.popleft()
                reply = await self._take(words) if word == WORD else replies.bulk(words[0])
                if not self._is_lost:
                    self._transport.write(reply)
        except Exception:
            log.exception("a parcel of another shard could not be taken", source=self._source)
            self._transport.abort()

    async def _take(self, words: list[bytes]) -> bytes:
        try:
            return replies.bulk(encode_taken(await self._inbox.take(self._source, decode_parcel(words))))
        except MiniqueueError as exc:
            return replies.error(exc.code, str(exc))
