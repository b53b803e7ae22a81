"""Probes: how long a publish takes to each shard through each door, and what it gets while a shard is away.

door 0 ─┬─▶ shard 0     while shard 1 is away, the pairs without it are innocent: they must get no error, and their
door 2 ─┼─▶ shard 1     latency is compared with that of quiet times; the other doors answer for shard 1 with an
        └─▶ shard 2     error, in time
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import quantiles
from typing import NamedTuple

import hiredis

from tests.acceptance.shards.conftest import topic_in
from tests.durability.clients.resp import Resp

PAUSE_SECONDS = 0.02
QUIET = "quiet"
#: A probe leaves so many messages behind.
KEPT = b"100"


class Phase(NamedTuple):
    """What happens now: nothing, or a fault of a shard."""

    name: str = QUIET
    shard: int | None = None

    def spares(self, shard: int, door: int) -> bool:
        """Whether the way from a door to a shard leads through no process with a fault."""
        return self.shard not in (shard, door)


class Probes:
    """Measures all ways.

    Args:
      ports: the RESP port of each shard.

    Attributes:
      phase: what happens now.
      problems: what innocent ways got that they must not.
      slowest_seconds: the longest time that a door took to answer for a shard that was away.
      stalled_seconds: the longest time for which the machine did not let this process run; the others may have been
        as late, and then they get no answer in time, either.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._topics = [topic_in(shard, "probe-").encode() for shard in range(len(ports))]
        self._latencies: defaultdict[str, list[float]] = defaultdict(list)
        self._refusals = Counter[str]()
        self._tasks: list[asyncio.Task[None]] = []
        self.phase = Phase()
        self.problems: list[str] = []
        self.slowest_seconds = self.stalled_seconds = 0.0

    async def begin(self) -> None:
        """Create the topics, and begin to measure."""
        connection = await Resp.connect(self._ports[0])
        for topic in self._topics:
            settings = (b"max_messages", KEPT, b"limit_policy", b"drop-oldest")
            assert await connection.ask(b"TOPIC", b"CREATE", topic, *settings) == b"OK"
        connection.close()
        ways = [(shard, door) for shard in range(len(self._ports)) for door in range(len(self._ports))]
        self._tasks = [asyncio.create_task(self._measure(*way)) for way in ways]
        self._tasks.append(asyncio.create_task(self._look_at_clock()))

    async def end(self) -> None:
        """Measure no more; raises what a probe has raised."""
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if not isinstance(outcome, asyncio.CancelledError):
                raise outcome or AssertionError("a probe has ended by itself")

    def line(self) -> str:
        """Return the median and the 99th percentile of the latency of innocent ways in each phase, in ms."""
        figures = [f"{name}_p50/p99={_figures(each)}" for name, each in sorted(self._latencies.items()) if each]
        refusals = ",".join(f"{word}:{count}" for word, count in sorted(self._refusals.items()))
        return " ".join([*figures, f"refusals={refusals}", *self._times()])

    def _times(self) -> list[str]:
        return [f"slowest_answer={self.slowest_seconds:.2f}s", f"longest_stall={self.stalled_seconds:.2f}s"]

    async def _measure(self, shard: int, door: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            phase = self.phase
            try:
                connection = await Resp.connect(self._ports[door])
                try:
                    while True:
                        phase, began_at = self.phase, loop.time()
                        reply = await connection.ask(b"PUB", self._topics[shard], b"x")
                        self._note(phase, shard, door, loop.time() - began_at, reply)
                        await asyncio.sleep(PAUSE_SECONDS)
                finally:
                    connection.close()
            except ConnectionError as exc:
                if phase.spares(shard, door) and self.phase.spares(shard, door):
                    self.problems.append(f"{self.phase}: a connection to door {door} has ended: {exc}")
                await asyncio.sleep(PAUSE_SECONDS)

    async def _look_at_clock(self) -> None:
        while True:
            due_at = asyncio.get_running_loop().time() + PAUSE_SECONDS
            await asyncio.sleep(PAUSE_SECONDS)
            self.stalled_seconds = max(self.stalled_seconds, asyncio.get_running_loop().time() - due_at)

    def _note(self, phase: Phase, shard: int, door: int, seconds: float, reply: object) -> None:
        is_error = isinstance(reply, hiredis.ReplyError)
        is_spared = phase.spares(shard, door) and self.phase.spares(shard, door)
        if is_spared and is_error:
            self.problems.append(f"{phase}: shard {shard} through door {door} got {reply}")
        elif is_spared:
            self._latencies[phase.name].append(seconds)
        elif is_error and door not in (phase.shard, self.phase.shard):
            self._refusals[str(reply).partition(" ")[0]] += 1
            self.slowest_seconds = max(self.slowest_seconds, seconds)


def _figures(seconds: list[float]) -> str:
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else seconds * 99
    return f"{cuts[49] * 1000:.1f}/{cuts[98] * 1000:.1f}ms"
