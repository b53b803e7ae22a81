"""The overview of the broker: all topics, what needs attention and since when, and the history.

    every `STEP_SECONDS` ─▶ survey ─┬─▶ history: a point of the broker, and of each topic in which something happens
    a client requests one ▶ survey ─┴─▶ findings: each new one is dated

All clients share a survey. It is used for `RECENT_SECONDS`, or for `REST_FACTOR` times as long as it took, so that
surveys use a small part of the time of the event loop, however many topics there are; at most for `MAX_REST_SECONDS`,
since a survey also takes long if the process is suspended meanwhile.

`begin` starts the history. A broker without a dashboard does not call it, so it has no cost there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.attention import BrokerSeen, LimitUse, of_broker
from miniqueue.broker.inspect.history import STEP_SECONDS, History, Point
from miniqueue.broker.inspect.rates import RateMeter
from miniqueue.broker.inspect.survey import Since, Survey, Surveyed
from miniqueue.broker.model.shares import Pool
from miniqueue.broker.runtime.accounts import UNLIMITED, Purpose
from miniqueue.broker.runtime.tasks import SharedResult

RECENT_SECONDS: Final = 0.9
REST_FACTOR: Final = 20
MAX_REST_SECONDS: Final = 10.0
#: Points of topics that one event-loop iteration adds to the history.
POINTS_IN_TURN: Final = 1_000
#: Estimated memory of a row of the last survey, and of a finding.
ROW_BYTES: Final = 400
FINDING_BYTES: Final = 700
#: The pools that are limits of the whole broker, with the setting of each.
_POOLS: Final = {
    Pool.TOPICS: "-max-topics",
    Pool.PARTITIONS: "-max-partitions",
    Pool.CONNECTIONS: "-max-connections",
    Pool.DEDUP_IDS: "-max-dedup-ids",
    Pool.REQUESTS: "",
    Pool.TASKS: "",
}


class Overview:
    """Shows the state of the whole broker, and its history.

    Args:
      engine: has the topics.
      rates: measures the topics.

    Attributes:
      history: the points of the last hours; empty before `begin`.
    """

    def __init__(self, engine: Engine, rates: RateMeter) -> None:
        self._engine = engine
        self.history = History()
        self._survey = Survey(engine, rates, self.history)
        self._making: SharedResult[Surveyed] = SharedResult()
        self._last: Surveyed | None = None
        self._good_until = 0.0  # monotonic; the last survey is recent enough until then
        self._min_free_bytes = 0
        self._noted = 0, 0  # the last tick with a point, and its time in ms since 1970

    def begin(self, min_free_bytes: int = 0) -> None:
        """Start the history; publishes are refused if less than `min_free_bytes` of the disk are free."""
        self._min_free_bytes = min_free_bytes
        self._engine.memory.measure(Purpose.HISTORY, lambda: self._size_bytes)
        self._engine.tasks.spawn(self.run())

    @property
    def _size_bytes(self) -> int:
        last, own_bytes = self._last, 0
        if last is not None:
            own_bytes += ROW_BYTES * (len(last.rows) + len(last.parts))
            own_bytes += FINDING_BYTES * (len(last.findings) + len(last.part_findings))
        return self.history.size_bytes + self._survey.size_bytes + own_bytes

    async def run(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Call `note` at each step, forever."""
        clock = self._engine.clock
        while True:
            due_at = (self.tick + 1) * STEP_SECONDS
            # A sleep can end a millisecond early. A point made then would belong to the tick that ends, and that of the
            # next tick could be missing.
            while (seconds := due_at - clock.monotonic()) > 0:
                await sleep(seconds)
            await self.note()

    async def note(self) -> None:
        """Add the points of the current tick to the history, unless it has them."""
        tick = self.tick
        line = self.history.of_broker()
        if line.points and line.last_tick >= tick:
            return
        noted = tick, self._engine.clock.now_ms()
        surveyed = await self._make_again()
        totals = surveyed.totals
        rates = totals.published, totals.acknowledged, totals.returned
        point = Point(*rates, totals.ready, totals.leased, totals.delayed, totals.dead)
        self.history.begin(tick, point, surveyed.points)
        points = [*surveyed.points.items()]
        for start in range(0, len(points), POINTS_IN_TURN):
            self.history.add(tick, points[start : start + POINTS_IN_TURN])
            await asyncio.sleep(0)
        self._noted = noted
        await self._survey.remember_groups(tick)

    @property
    def tick(self) -> int:
        """The number of the current tick of the history."""
        return int(self._engine.clock.monotonic() // STEP_SECONDS)

    def time_of(self, tick: int) -> int:
        """Return when the points of a tick were made, in ms since 1970, reckoned from the last tick with a point."""
        noted_tick, at_ms = self._noted
        return at_ms + (tick - noted_tick) * STEP_SECONDS * 1000

    async def look(self) -> Surveyed:
        """Return a recent survey."""
        if self._last is not None and self._engine.clock.monotonic() < self._good_until:
            return self._last
        return await self._make_again()

    async def _make_again(self) -> Surveyed:
        return await self._making.get(self._make)

    async def _make(self) -> Surveyed:
        clock = self._engine.clock
        begun_at = clock.monotonic()
        surveyed = await self._engine.journal.epoch.repeat(self._survey_once)
        ended_at = clock.monotonic()
        self._last = surveyed
        rest_seconds = min(REST_FACTOR * (ended_at - begun_at), MAX_REST_SECONDS)
        self._good_until = max(begun_at + RECENT_SECONDS, ended_at + rest_seconds)
        return surveyed

    async def _survey_once(self) -> Surveyed:
        since: Since = {} if self._last is None else self._last.since
        return await self._survey.make(self.tick, since, list(of_broker(self._broker_seen())))

    def _broker_seen(self) -> BrokerSeen:
        admission = self._engine.journal.admission
        refusal = "" if admission.refusal is None else str(admission.refusal())
        return BrokerSeen(refusal, admission.free_bytes, self._min_free_bytes, self.limits())

    def limits(self) -> list[LimitUse]:
        """Return the limits of the whole broker, and how much of each is used."""
        shares, memory = self._engine.shares, self._engine.memory
        pools = [
            LimitUse(pool.value.replace("_", " "), shares.used(pool, None), shares.limit_of(pool, None), setting)
            for pool, setting in _POOLS.items()
        ]
        most = None if memory.max_bytes >= UNLIMITED else memory.max_bytes
        return [*pools, LimitUse("memory", memory.used_bytes, most, "-max-memory", is_bytes=True)]
