"""The carrier: empties the outbox, a parcel at a time to each other shard, until everything has arrived.

outbox ─▶ parcel ─▶ send ─┬─ arrived ─▶ forgotten, next parcel
                          ├─ refused ─▶ its topic is left out for `REFUSED_SECONDS`; the others go on
                          └─ failed ──▶ sent again after `FAILED_SECONDS`; what has arrived is recognized there
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from miniqueue.broker.inbox.inbox import Taken
from miniqueue.broker.outbox.outbox import Outbox
from miniqueue.core.log.transfer import Parcel
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()

#: How long transfers to a topic wait that has refused one; and those to a shard that has ended, or has failed.
REFUSED_SECONDS: Final = 1.0
FAILED_SECONDS: Final = 0.2

#: Sends a parcel to a shard; returns what became of it. Raises MiniqueueError if that is not known.
Send = Callable[[int, Parcel], Awaitable[Taken]]


class Carrier:
    """Carries the transfers of one shard.

    Args:
      outbox: has them.
      send: sends a parcel.
      monotonic: the clock, in seconds.
      sleep: waits for some seconds.
    """

    def __init__(
        self,
        outbox: Outbox,
        send: Send,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._outbox = outbox
        self._send = send
        self._monotonic = monotonic
        self._sleep = sleep
        self._ready: dict[int, asyncio.Event] = {}
        self._blocked: dict[bytes, float] = {}  # until when

    async def run(self, shards: list[int]) -> None:
        """Carry everything to these shards, until cancelled."""
        self._ready = {shard: asyncio.Event() for shard in shards}
        self._outbox.on_ready = self._notice
        async with asyncio.TaskGroup() as group:
            for shard, ready in self._ready.items():
                ready.set()
                group.create_task(self._carry(shard, ready))

    def _notice(self, shard: int) -> None:
        if shard in self._ready:
            self._ready[shard].set()

    async def _carry(self, shard: int, ready: asyncio.Event) -> None:
        while True:
            ready.clear()
            parcel = self._outbox.parcel(shard, self._blocked_now())
            if not parcel.transfers:
                await self._wait(ready)
                continue
            try:
                taken = await self._send(shard, parcel)
            except MiniqueueError as exc:
                if self._outbox.failed(shard, str(exc)):
                    log.warning("messages for another shard wait", to=shard, error=str(exc))
                await self._sleep(FAILED_SECONDS)
            else:
                self._outbox.failed(shard, "")
                self._arrived(shard, taken.arrived)
                self._note(taken.refused)

    def _blocked_now(self) -> set[bytes]:
        now = self._monotonic()
        self._blocked = {topic: until for topic, until in self._blocked.items() if until > now}
        return set(self._blocked)

    async def _wait(self, ready: asyncio.Event) -> None:
        """Wait until there is more to send, or a topic that has refused a message is tried again."""
        if not self._blocked:
            await ready.wait()
            return
        waiting = asyncio.ensure_future(ready.wait())
        pause = asyncio.ensure_future(self._sleep(max(0.0, min(self._blocked.values()) - self._monotonic())))
        try:
            await asyncio.wait({waiting, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            pause.cancel()

    def _arrived(self, shard: int, numbers: list[int]) -> None:
        refusals = [*self._outbox.refusals]
        self._outbox.arrived(shard, numbers)
        for topic in refusals:
            if topic not in self._outbox.refusals:
                log.info("a topic of another shard takes messages again", topic=topic.decode())

    def _note(self, refused: Mapping[bytes, str]) -> None:
        for topic, reason in refused.items():
            if self._outbox.refused(topic, reason):
                log.warning("a topic of another shard refuses messages, which wait", topic=topic.decode(), error=reason)
            self._blocked[topic] = self._monotonic() + REFUSED_SECONDS
