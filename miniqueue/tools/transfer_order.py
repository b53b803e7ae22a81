"""The order in which the stores of a copy with shards are written, so that a message that moves is always in one.

    source   OUTBOX 17, SENT 17 ──────────────────────────── OUTBOX 17 deleted
                     └────────▶ target   RECEIVED 17 ────────────────┘

A store whose next write records what has arrived waits for the store of the source, until that contains what was sent;
one whose next write deletes what was sent waits for the store of the target. All stores grow in the order in which the
broker wrote, and the broker does the one after the other, so what they wait for comes, unless the broker has lost it
(`-sync never`): then all have nothing else to write, and the write is allowed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import structlog

from miniqueue.core.log.transfer import Received
from miniqueue.core.settings.placing import Placing
from miniqueue.storage.format import transfers, values
from miniqueue.storage.format.keys import Space

log = structlog.get_logger()

#: Changes of transfers, in order; None for the value of a deleted key.
Changes: TypeAlias = Sequence[tuple[bytes, bytes | None]]


def transfers_among(changes: Iterable[tuple[bytes, bytes | None]]) -> Changes:
    """Return the changes that concern transfers."""
    return [(key, value) for key, value in changes if Space.OUTBOX <= key[0] <= Space.RECEIVED]


class TransferOrder:
    """Decides which write of which store is next.

    Args:
      shard_count: how many stores there are.

    Attributes:
      moment: changes whenever a store was written, or begins to wait.
    """

    def __init__(self, shard_count: int) -> None:
        self._placing = Placing(0, shard_count)
        self._targets: dict[int, dict[int, int]] = defaultdict(dict)  # keys: source, and number of the transfer
        self._sent: dict[int, int] = defaultdict(int)
        self._received: dict[tuple[int, int], Received] = defaultdict(Received)  # keys: source and target
        self._waiting, self._resting = set[int](), set[int]()
        self._news = asyncio.Event()
        self.moment = 0

    async def next_count(self, shard: int, writes: Sequence[Changes]) -> int:
        """Return how many of the next writes of a store, at least one, can be made now; wait if there is none."""
        count = self._possible_count(shard, writes)
        if not count:
            self._waiting.add(shard)
            self._note_news()
            while not (count := self._possible_count(shard, writes)):
                if len(self._waiting | self._resting) == self._placing.shard_count:
                    log.warning("the broker has lost what another shard has recorded", shard=shard)
                    count = 1
                    break
                await self._news.wait()
            self._waiting.discard(shard)
        return count

    def wrote(self, shard: int, writes: Iterable[Changes]) -> None:
        """Note writes of a store, durable ones, or its whole content."""
        for key, value in (change for changes in writes for change in changes):
            match key[0]:
                case Space.OUTBOX if value is None:
                    self._targets[shard].pop(transfers.number_of(key), None)
                case Space.OUTBOX if value is not None:
                    self._note_target(shard, key, value)
                case Space.SENT if value is not None:
                    self._sent[shard] = values.decode_number(value)
                case Space.RECEIVED if value is not None:
                    self._received[transfers.shard_of(key), shard] = transfers.decode_received(value)
        self._note_news()

    def rests(self, shard: int, moment: int) -> None:
        """Note that a store had nothing to write when it asked at a moment."""
        if moment == self.moment:
            self._resting.add(shard)
            self._wake()

    def _possible_count(self, shard: int, writes: Sequence[Changes]) -> int:
        return next((n for n, changes in enumerate(writes) if not self._is_possible(shard, changes)), len(writes))

    def _is_possible(self, shard: int, changes: Changes) -> bool:
        for key, value in changes:
            match key[0]:
                case Space.OUTBOX if value is None:
                    number = transfers.number_of(key)
                    target = self._targets[shard].get(number, shard)
                    if target != shard and not self._received[shard, target].has(number):
                        return False
                case Space.OUTBOX if value is not None:
                    self._note_target(shard, key, value)
                case Space.RECEIVED if value is not None:
                    if self._sent[transfers.shard_of(key)] < transfers.decode_received(value).last_number:
                        return False
        return True

    def _note_target(self, shard: int, key: bytes, value: bytes) -> None:
        topic = transfers.decode_transfer(value).topic
        self._targets[shard][transfers.number_of(key)] = self._placing.shard_of(topic)

    def _note_news(self) -> None:
        self.moment += 1
        self._resting.clear()
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
