"""A random mix of all hostile clients, beside an innocent producer and an innocent consumer.

    round:  some hostile clients at work ─▶ the calm        the innocent go on through both

What must hold: the broker is never killed and stops in good order, its memory stays within `-max-memory` and what is
spare, nothing confirmed is lost, and timers of its loop are not late. What is charged explains the memory, too.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from tests.acceptance.process import Trust
from tests.durability.clients.recorder import Recorder
from tests.durability.hostile.clients import HOSTILE, at_work
from tests.durability.hostile.recorded import Recorded
from tests.durability.hostile.victim import (
    MAX_MEMORY_BYTES,
    MIB,
    SPARE_BYTES,
    Victim,
    charged_bytes,
    filled,
    quantiles_of_lag,
    victim,
)
from tests.durability.load.measuring import own_bytes
from tests.durability.report import Report

#: How long hostile clients are at work in a round, and how long it is calm after them.
HOSTILE_SECONDS, CALM_SECONDS = 2.6, 1.0
ROUND_SECONDS = HOSTILE_SECONDS + CALM_SECONDS
MOST_AT_ONCE = 3
#: Fewer than `beside` has, so that a scrape in the middle does not take as long as a round.
TOPICS = 1000
#: The lag is that of the last minute, so it is read about as often; at the end in any case.
ROUNDS_BETWEEN_SCRAPES = 16
SAMPLE_SECONDS = 0.2
MAX_LAG_SECONDS = 0.05
#: The part of the memory that need not be charged, beyond `SPARE_BYTES`.
UNCHARGED_PART = 0.3


class Mixed(NamedTuple):
    """What came of it.

    Attributes:
      lags_seconds: the 99.9th percentile of how late timers fired, for each scrape.
      calm_seconds: how long each publish took in the calm.
      hostile_seconds: how long each publish took beside hostile clients.
      uncharged_bytes: the most memory that was in no account, at a scrape.
    """

    rounds: int
    seed: int
    report: Report
    peak_bytes: int
    lags_seconds: list[float]
    calm_seconds: list[float]
    hostile_seconds: list[float]
    uncharged_bytes: int
    refused_count: int
    findings: list[str]

    def line(self) -> str:
        """Return all of it on one line, and the figures as a table below."""
        rows = (
            ("memory, at most", f"{self.peak_bytes / MIB:.0f} MiB with -max-memory {MAX_MEMORY_BYTES / MIB:.0f}MiB"),
            ("of it in no account, at most", f"{self.uncharged_bytes / MIB:.0f} MiB"),
            ("lag, p99.9: median and worst minute", " and ".join(_ms(lag) for lag in _spread(self.lags_seconds))),
            ("p99 of a publish in the calm", _ms(_p99(self.calm_seconds))),
            ("p99 of a publish beside hostile clients", _ms(_p99(self.hostile_seconds))),
            ("publishes, refused ones", f"{len(self.calm_seconds) + len(self.hostile_seconds)}, {self.refused_count}"),
        )
        table = "".join(f"\n| {name} | {figure} |" for name, figure in rows)
        return f"hostile: rounds={self.rounds} {self.report.line()}; seed={self.seed}{table}"


def soak(
    directory: Path,
    trust: Trust,
    rounds: int,
    seed: int,
    *,
    names: Sequence[str] = tuple(HOSTILE),
    command: Sequence[str] | None = None,
) -> Mixed:
    """Run a broker beside the mix, and judge it."""
    recorder = Recorder(directory / "history.jsonl")
    findings: list[str] = []
    run = _Run(recorder, Random(seed), names)
    try:
        with victim(filled(directory, trust, TOPICS), trust, command=command) as found:
            try:
                asyncio.run(run.all(found, rounds))
            except (ConnectionError, TimeoutError, OSError) as exc:
                state = "runs" if found.process.is_alive() else f"has ended, {found.process.process.poll()}"
                findings.append(f"a client could not go on: {exc!r}; the broker {state}")
    except AssertionError as exc:
        findings.append(f"the broker or a client is wrong: {exc}")
    finally:
        recorder.close()
    report = recorder.checker.report
    findings += report.findings if not report.is_clean else []
    findings += run.findings()
    return Mixed(
        rounds,
        seed,
        report,
        run.peak_bytes,
        run.lags_seconds,
        run.calm_seconds,
        run.hostile_seconds,
        run.uncharged_bytes,
        run.refused_count,
        findings,
    )


class _Run:
    """The rounds, and what is measured meanwhile."""

    def __init__(self, recorder: Recorder, random: Random, names: Sequence[str]) -> None:
        self.peak_bytes = 0
        self.uncharged_bytes = 0
        self.refused_count = 0
        self.lags_seconds: list[float] = []
        self.calm_seconds: list[float] = []
        self.hostile_seconds: list[float] = []
        self._too_much: list[str] = []
        self._recorder = recorder
        self._random = random
        self._names = names

    async def all(self, found: Victim, rounds: int) -> None:
        """Run hostile clients, round by round, beside the innocent ones."""
        innocent = Recorded(self._recorder, found.process.resp_port, found.innocent_token)
        working = asyncio.create_task(innocent.work())
        sampling = asyncio.create_task(self._sample(found.process.process.pid))
        try:
            for number in range(1, rounds + 1):
                await self._round(found, innocent)
                if working.done() or sampling.done():
                    break
                if number % ROUNDS_BETWEEN_SCRAPES == 0 or number == rounds:
                    await asyncio.to_thread(self._scrape, found)
                    self._recorder.turn_page()
        finally:
            innocent.finish()
            sampling.cancel()
            self.refused_count = innocent.refused_count
        await working

    async def _round(self, found: Victim, innocent: Recorded) -> None:
        chosen = self._random.sample(self._names, min(len(self._names), self._random.randint(1, MOST_AT_ONCE)))
        with ExitStack() as stack:
            for name in chosen:
                stack.enter_context(at_work(name, found.target))
            await asyncio.sleep(HOSTILE_SECONDS)
        self.hostile_seconds += innocent.took_seconds
        innocent.took_seconds.clear()
        await asyncio.sleep(CALM_SECONDS)
        self.calm_seconds += innocent.took_seconds
        innocent.took_seconds.clear()

    async def _sample(self, pid: int) -> None:
        while True:
            self.peak_bytes = max(self.peak_bytes, own_bytes(pid))
            await asyncio.sleep(SAMPLE_SECONDS)

    def _scrape(self, found: Victim) -> None:
        metrics, size_bytes = found.metrics(), own_bytes(found.process.process.pid)
        self.lags_seconds.append(quantiles_of_lag(metrics)["0.999"])
        uncharged_bytes = size_bytes - charged_bytes(metrics)
        self.uncharged_bytes = max(self.uncharged_bytes, uncharged_bytes)
        if uncharged_bytes > UNCHARGED_PART * size_bytes + SPARE_BYTES:
            self._too_much.append(f"{uncharged_bytes / MIB:.0f} of {size_bytes / MIB:.0f} MiB are in no account")

    def findings(self) -> list[str]:
        """Return what must not be."""
        findings = list(self._too_much)
        if self.peak_bytes > MAX_MEMORY_BYTES + SPARE_BYTES:
            findings.append(f"the broker used {self.peak_bytes / MIB:.0f} MiB")
        if not self.lags_seconds or median(self.lags_seconds) > MAX_LAG_SECONDS:
            findings.append(f"timers were late, at the 99.9th percentile of each minute: {self.lags_seconds} s")
        if not self.calm_seconds or not self.hostile_seconds:
            findings.append("nothing was published")
        return findings


def _p99(took_seconds: Sequence[float]) -> float:
    return sorted(took_seconds)[len(took_seconds) * 99 // 100] if took_seconds else 0.0


def _spread(seconds: Sequence[float]) -> tuple[float, float]:
    return (median(seconds), max(seconds)) if seconds else (0.0, 0.0)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
