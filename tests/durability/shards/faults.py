"""Cause faults of single shards under load, and check that no promise is broken, and that the others go on.

    ┌─▶ quiet ─▶ a fault of one shard, chosen by the seed ─▶ it ends ─▶ all doors answer for all shards again ─┐
    └────────────────────────────────────────────────────────────────────────────────────────────────────────┘
    at the end: drain every topic ─▶ stop in good order ─▶ `miniqueue check`

    kill    kill -9 of the process; it is started again at once
    stop    SIGSTOP for some time, then SIGCONT
    low     the disk of the shard has less room than `-min-free`: publishes are refused, consumers go on
    full    not a byte is left on it, so that writes fail

Each shard has a history of its own, since its topic is in no other. The clients of a fault end when it does, before the
shard can do anything: what they hold then is returned, as the checker knows.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from tests.acceptance.process import Trust, run_to_end
from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, nodes_in, topic_in
from tests.durability.clients.publishers import Ports
from tests.durability.clients.resp import Resp
from tests.durability.clients.workload import drain
from tests.durability.report import Report
from tests.durability.shards.probes import Phase, Probes
from tests.durability.shards.side import Side

#: The shard with a small disk, and the size of that.
DISK_SHARD = 1
DISK_BYTES = 192 << 20
MIN_FREE_BYTES = 96 << 20
#: The room on the disk when it is low: enough for what consumers settle, and to compact what they have consumed.
LOW_BYTES = 64 << 20
PAGE_BYTES = 4096
QUIET_SECONDS = 0.8
DISK_SECONDS = 1.5
#: Far longer than a shard takes to come back, even if it reads its store again every 10 s.
BACK_SECONDS = 90.0
#: The time in which the others must answer for a shard that is away.
ANSWER_SECONDS = 5.0
#: If the machine stalls for longer, shards may not answer each other in time, which is 3 s.
STALL_SECONDS = 1.0


@contextmanager
def disk_at(directory: Path) -> Iterator[bool]:
    """Mount a small disk for the shard with one; yield whether that is possible here."""
    path = directory / "store" / f"shard-{DISK_SHARD}"
    path.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "none", str(path)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)


class FaultLoop:
    """One broker with shards, many faults of one of them at a time.

    Args:
      directory: empty; the store, the histories, and what the broker said are kept in it.
      trust: the certificate of the broker.
      seed: the seed of everything random, except the scheduling.
      stop_seconds: how long a shard is suspended.
      report: called after each fault, with the number of each kind until then.
    """

    def __init__(
        self,
        directory: Path,
        trust: Trust,
        seed: int,
        stop_seconds: float,
        report: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._report = report
        self._directory = directory
        self._trust = trust
        self._random = Random(seed)
        self._stop_seconds = stop_seconds
        self._counts = Counter[str]()
        self._reports: list[Report] = []
        self._back_seconds = [0.0]
        self.findings: list[str] = []
        self.line = ""

    def run(self, faults: Sequence[str]) -> None:
        """Cause these faults, one after the other; then compare everything, and set `line` and `findings`."""
        flags = (*self._trust.flags, "-min-free", str(MIN_FREE_BYTES), "-ballast", "1MiB")
        with disk_at(self._directory) as has_disk, nodes_in(self._directory, *flags) as broker:
            possible = [fault for fault in faults if has_disk or fault not in ("low", "full")]
            asyncio.run(self._run(broker, possible))
            (self._directory / "output.log").write_text(broker.output)
            self.findings += [line for line in broker.output.splitlines() if "Traceback" in line][:3]
            broker.stop()
            checked = run_to_end("check", "-db", "store", cwd=self._directory)
            self.findings += [] if checked.returncode == 0 else [checked.stdout]

    def judge_others(self) -> None:
        """Add findings if others got errors, or took too long to answer, unless the machine did not let them run."""
        if self._probes.stalled_seconds > STALL_SECONDS:
            return
        self.findings += self._probes.problems[:20]
        if self._probes.slowest_seconds > ANSWER_SECONDS:
            self.findings.append(f"an answer for a shard that was away took {self._probes.slowest_seconds:.1f} s")

    async def _run(self, broker: ShardedBroker, faults: Sequence[str]) -> None:
        self._broker = broker
        self._ports = [broker.first_port + number for number in range(SHARDS)]
        self._sides = [
            Side(shard, self._directory, self._ports, Random(self._random.random())) for shard in range(SHARDS)
        ]
        self._probes = Probes(self._ports)
        await self._probes.begin()
        try:
            for fault in faults:
                self._begin()
                await self._for(QUIET_SECONDS * self._random.uniform(0.5, 1.5))
                await self._fail(fault)
            await self._for(QUIET_SECONDS)
        finally:
            await _ended([task for side in self._sides for task in side.end()])
            await self._probes.end()
        for side in self._sides:
            await self._drain(side)
        self._judge()

    def _begin(self) -> None:
        for side in self._sides:
            side.begin()

    async def _fail(self, fault: str) -> None:
        shard = DISK_SHARD if fault in ("low", "full") else self._random.randrange(SHARDS)
        self._counts[fault] += 1
        self._probes.phase = Phase(fault, shard)
        await {"kill": self._kill, "stop": self._stop, "low": self._low, "full": self._full}[fault](shard)
        began_at = time.monotonic()
        await self._until_back(shard)
        self._back_seconds.append(time.monotonic() - began_at)
        self._probes.phase = Phase()
        self._report(self._counts)

    # --- the faults -------------------------------------------------------------------------------------------

    async def _kill(self, shard: int) -> None:
        pid = self._broker.shard(shard)
        ending = self._clients_of(shard)
        os.kill(pid, signal.SIGKILL)
        await _ended(ending)
        self._sides[shard].crash()
        self._begin()  # at once, while the process is started again

    async def _stop(self, shard: int) -> None:
        with self._broker.stopped(shard):
            await self._for(self._stop_seconds)
            await _ended(self._clients_of(shard))

    async def _low(self, _shard: int) -> None:
        with self._filled(LOW_BYTES):
            await self._for(DISK_SECONDS)

    async def _full(self, shard: int) -> None:
        side = self._sides[shard]
        await _ended(side.end(publishes=True))  # they would get messages again before the crash is logged
        with self._filled(0):
            await self._for(DISK_SECONDS)
        await self._until_back(shard)
        await _ended(side.end())
        side.crash()

    def _clients_of(self, shard: int) -> list["asyncio.Task[None]"]:
        """End the clients of a shard, and those at its door; return the tasks."""
        return [task for side in self._sides for task in side.end(None if side.shard == shard else shard)]

    @contextmanager
    def _filled(self, left_bytes: int) -> Iterator[None]:
        """Fill the small disk while the block runs, except for some bytes."""
        path = self._directory / "store" / f"shard-{DISK_SHARD}" / "of-another-program"
        try:
            with path.open("wb", buffering=0) as file, suppress(OSError):  # the disk is full
                for size_bytes in (1 << 20, PAGE_BYTES):
                    while _free_bytes(path) >= left_bytes + size_bytes:
                        os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size_bytes)
            yield
        finally:
            path.unlink()

    # --- waiting ----------------------------------------------------------------------------------------------

    async def _for(self, seconds: float) -> None:
        """Wait, and see that all clients go on."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(0.1, left))
            for side in self._sides:
                side.check()

    async def _until_back(self, shard: int) -> None:
        """Return when all doors accept messages for the shard, and its door for all others."""
        async with asyncio.timeout(BACK_SECONDS):
            for door in range(SHARDS):
                for target in range(SHARDS) if door == shard else [shard]:
                    await self._until_accepted(door, target)

    async def _until_accepted(self, door: int, shard: int) -> None:
        while not await self._accepts(door, shard):  # noqa: ASYNC110 - there is nothing to wait on in another process
            await asyncio.sleep(0.02)

    async def _accepts(self, door: int, shard: int) -> bool:
        try:
            connection = await Resp.connect(self._ports[door])
            try:
                return isinstance(await connection.ask(b"PUB", topic_in(shard, "back-").encode(), b"x"), bytes)
            finally:
                connection.close()
        except ConnectionError:
            return False

    # --- the end ----------------------------------------------------------------------------------------------

    async def _drain(self, side: Side) -> None:
        broker = self._broker
        ports = Ports(broker.resp_port, broker.https_port, broker.monitor_port, self._trust.ca)
        await drain(ports, side.recorder, side.topic)
        side.recorder.close()
        self._reports.append(side.recorder.checker.report)

    def _judge(self) -> None:
        total = Report()
        for report in self._reports:
            total.counts.update(report.counts)
            self.findings += report.findings[:20]
        counts = " ".join(f"{fault}={count}" for fault, count in sorted(self._counts.items()))
        slowest_back = f"slowest_return={max(self._back_seconds):.1f}s"
        self.line = f"shard-faults {counts} {total.line()} {self._probes.line()} {slowest_back}"


def _free_bytes(path: Path) -> int:
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize


async def _ended(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Wait for tasks that were cancelled; raises what else one of them has raised."""
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(outcome, asyncio.CancelledError):
            raise outcome or AssertionError("a client has ended by itself")
