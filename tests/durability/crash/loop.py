"""Kill the broker, or cut its power, again and again, and check that every promise held.

    ┌─► start ─► drain ─► clients at work ─► kill -9 at any time, or a power cut at any call ─► check ─┐
    └──────────────────────────────────────────────────────────────────────────────────────────────────┘
    at the end: start ─► drain ─► stop in good order ─► start: nothing is left

The broker is the real process, with small write buffers (launcher). One topic is drained only now and then, so that
messages also live through several crashes, and one is deleted again and again (`deleter`). Beside them players
(`player`) do all else that can be done; members of a group come, leave and die (`crew`), and some ask what others
answer (`desk`). Everything random follows from the seed, except the scheduling.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType

from tests.acceptance.process import COMMAND, FREE_PORTS, OTHER_COMMAND, BrokerProcess, Trust, environment
from tests.durability.clients.crew import Crew
from tests.durability.clients.deleter import Deleter
from tests.durability.clients.desk import Desk
from tests.durability.clients.events import Crash, Stop
from tests.durability.clients.player import make_players
from tests.durability.clients.publishers import Ports
from tests.durability.clients.recorder import Recorder
from tests.durability.clients.workload import CLIENTS, TOPICS, drain, run_clients
from tests.durability.crash.powercut import Disk, variables
from tests.durability.crash.result import Result
from tests.durability.crash.unsynced import Mode

ROOT = Path(__file__).parents[3]
LAUNCHER = OTHER_COMMAND or (sys.executable, "-m", "tests.durability.crash.launcher")
#: A tick of the broker, for messages with a delay.
PERIOD = "20ms"
#: A run takes a few seconds; one that takes this long will not end.
STUCK_SECONDS = 120
#: The history of this many crashes is in one file.
CRASHES_PER_PAGE = 20
#: Clients do little on a busy machine; a loop that lacks work goes on for so many times its crashes.
MOST_TIMES = 4
NO_WORK: Mapping[str, int] = MappingProxyType({})
#: How often a loop is begun that is to find something.
ATTEMPTS = 8
#: How long a directory's sync takes in strict mode: longer than a few commits.
SLOW_US = 5000
#: The topic that is drained only after so many crashes.
LONG_LIVED, CRASHES_BETWEEN_DRAINS = TOPICS[0], 5


@dataclass(frozen=True)
class Cutting:
    """How the power is cut."""

    library: Path
    mode: Mode


class CrashLoop:
    """One store, one history, many crashes.

    Args:
      directory: empty; the store, the history and what the broker said in its last run are kept in it.
      trust: the certificate of the broker.
      cutting: cut the power; None to kill only.
      plant: a bug of `launcher.PLANTS`.
      syncs: values of `-sync`, one of which is chosen for each run.
      load_seconds: about how long the clients are at work between two crashes.
      crashes_between_checks: number of crashes after which `miniqueue check` checks the store.
      crashes_per_life: number of crashes after which the players start again with other topics, which bounds what they
        have to remember.
      shards: number of processes; each crash ends all of them.
    """

    def __init__(
        self,
        directory: Path,
        trust: Trust,
        *,
        seed: int,
        cutting: Cutting | None = None,
        plant: str | None = None,
        syncs: Sequence[str] = ("always",),
        load_seconds: float = 0.25,
        crashes_between_checks: int = 1,
        crashes_per_life: int = 20,
        shards: int = 1,
    ) -> None:
        self._random = Random(seed)
        self._seed = seed
        self._trust = trust
        self._directory = directory
        self._root = directory / "disk"
        self._root.mkdir(parents=True)
        self._database = self._root / "data"
        self._journal = directory / "journal"
        self._recorder = Recorder(directory / "history.jsonl", shards)
        self._deleter = Deleter()
        self._crew = Crew()
        self._desk = Desk()
        self._players = make_players(seed, shards)
        self._cutting = cutting
        self._plant = plant
        self._syncs = syncs
        self._load_seconds = load_seconds
        self._crashes_between_checks = crashes_between_checks
        self._crashes_per_life = crashes_per_life
        self._shards = shards
        self._start_seconds: list[float] = []
        self._problems: list[str] = []
        self._torn_tails = 0

    def run(self, name: str, crashes: int, *, until: str | None = None, work: Mapping[str, int] = NO_WORK) -> Result:
        """Crash so many times, then drain; or stop as soon as a fault of the kind `until` has been counted.

        `work` is what is to be counted of each kind at the least; it crashes more often where that takes it.
        """
        start = time.monotonic()
        done = 0
        most = MOST_TIMES * crashes
        while done < (most if self._lacks(work) else crashes) and not self._has(until) and not self._problems:
            done += 1
            asyncio.run(self._crash_once(done))
            if done % CRASHES_PER_PAGE == 0:
                self._recorder.turn_page()
        if not self._problems and not self._has(until):
            asyncio.run(self._end())
        self._recorder.close()
        seconds = time.monotonic() - start
        report = self._recorder.checker.report
        return Result(name, done, report, seconds, self._seed, self._start_seconds, self._torn_tails, self._problems)

    def _has(self, kind: str | None) -> bool:
        return kind is not None and self._recorder.checker.report.counts[kind] > 0

    def _lacks(self, work: Mapping[str, int]) -> bool:
        counts = self._recorder.checker.report.counts
        return any(counts[kind] < count for kind, count in work.items())

    # --- one crash ----------------------------------------------------------------------------------------------

    async def _crash_once(self, number: int) -> None:
        disk = Disk.load(self._root) if self._cutting else None
        broker = self._start(self._cut_at())
        try:
            await self._work_until_dead(broker, number)
        finally:
            broker.end()
        self._recorder.log(Crash())
        self._desk.crash()
        for player in self._players:
            player.crash()
        self._note_output(broker, may_be_killed=True)
        if disk is not None and self._cutting is not None:
            disk.replay(self._journal.read_bytes())
            disk.cut(self._cutting.mode, self._random)
        if number % self._crashes_between_checks == 0 and not self._problems:
            self._check_store()

    async def _work_until_dead(self, broker: BrokerProcess, number: int) -> None:
        if (ports := self._ports(broker)) is None:
            return
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                await self._deleter.compare(ports, self._recorder)
                await self._drain_most(ports, number)
                await self._prepare(ports, number)
                others = [self._deleter.run, *[player.run for player in self._players]]
                others += [self._crew.publish, *[self._crew.work] * 2, self._crew.work_over_http]
                others += [*[self._desk.ask] * 2, self._desk.answer]
                load_seconds = self._random.uniform(0.1, 1.9) * self._load_seconds
                asyncio.get_running_loop().call_later(load_seconds, broker.process.kill)
                await run_clients(ports, self._recorder, self._random, (*CLIENTS, *others))
        except ConnectionError:
            return  # it has died
        except AssertionError as fault:
            self._problems.append(f"a client got: {fault}")
        except TimeoutError:
            self._problems.append(f"nothing more has happened for {STUCK_SECONDS} s:\n{broker.output}")

    async def _prepare(self, ports: Ports, number: int) -> None:
        await self._crew.prepare(ports, self._recorder, self._random)
        for player in self._players:
            if number % self._crashes_per_life == 0:
                await player.end_life(ports, self._recorder)
            await player.prepare(ports, self._recorder)

    async def _drain_most(self, ports: Ports, number: int) -> None:
        for topic in TOPICS:
            if topic != LONG_LIVED or number % CRASHES_BETWEEN_DRAINS == 0:
                await drain(ports, self._recorder, topic)

    def _cut_at(self) -> int:
        """Choose the call at which the power is cut: often while it starts, else at any time under load."""
        if self._cutting is None:
            return 0
        return self._random.randint(1, 60) if self._random.random() < 0.25 else round(60 * 25 ** self._random.random())

    # --- the broker ---------------------------------------------------------------------------------------------

    def _start(self, cut_at: int = 0) -> BrokerProcess:
        env = environment(PYTHONPATH=str(ROOT))
        if self._cutting is not None:
            self._journal.unlink(missing_ok=True)
            slow_us = SLOW_US if self._cutting.mode is Mode.STRICT else 0
            library = self._cutting.library
            env |= variables(library, self._root, self._journal, cut_at=cut_at, slow_us=slow_us)
        plant = ["--plant", self._plant] if self._plant else []
        sync = ["-sync", self._random.choice(self._syncs)]
        sync += ["-shards", str(self._shards)] if self._shards > 1 else []
        flags = [*FREE_PORTS, *self._trust.flags, "-period", PERIOD, "-db", str(self._database), *sync]
        return BrokerProcess([*plant, *flags], cwd=self._directory, command=LAUNCHER, env=env)

    def _ports(self, broker: BrokerProcess) -> Ports | None:
        """Wait until the broker is ready; None when its power is cut before."""
        start = time.monotonic()
        try:
            broker.wait_until_ready()
        except AssertionError:
            return None
        self._start_seconds.append(time.monotonic() - start)
        return Ports(broker.resp_port, broker.https_port, broker.monitor_port, self._trust.ca)

    def _note_output(self, broker: BrokerProcess, *, may_be_killed: bool) -> None:
        (self._directory / "output.log").write_text(broker.output)
        self._torn_tails += broker.output.count("has been set aside")
        if broker.process.returncode != (-signal.SIGKILL if may_be_killed else 0) or "Traceback" in broker.output:
            self._problems.append(f"exit code {broker.process.returncode}:\n{broker.output}")

    def _check_store(self) -> None:
        """Check the store with `miniqueue check`, if there is one yet."""
        if not (self._database / "db").exists() and not (self._database / "miniqueue.shards").exists():
            return
        command = [*COMMAND, "check", "-db", str(self._database)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=environment(PYTHONPATH=str(ROOT)),
            check=False,
        )
        if done.returncode != 0:
            self._problems.append(f"check: exit code {done.returncode}:\n{done.stdout}{done.stderr}")

    # --- the end ------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Drain everything, stop in good order, and see that nothing comes again."""
        for _ in range(2):
            broker = self._start()
            try:
                if (ports := self._ports(broker)) is not None:
                    await self._deleter.compare(ports, self._recorder)
                    for topic in TOPICS:
                        await drain(ports, self._recorder, topic)
                    await self._crew.drain(ports, self._recorder)
                    for player in self._players:
                        await player.finish(ports, self._recorder)
                    broker.process.send_signal(signal.SIGTERM)
                    broker.wait()
            finally:
                broker.end()
            self._recorder.log(Stop())
            for player in self._players:
                player.stop()
            self._note_output(broker, may_be_killed=False)


def find(kind: str, make_loop: Callable[[int], CrashLoop], name: str, crashes: int) -> Result:
    """Crash until a fault of this kind has been found.

    A broker with a planted bug may break in another way first, such as a topic with a hole in it; then a new loop is
    made, up to `ATTEMPTS` times.
    """
    for attempt in range(ATTEMPTS):
        result = make_loop(attempt).run(name, crashes, until=kind)
        if result.report.counts[kind]:
            break
    return result
