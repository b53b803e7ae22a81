"""The long runs: `make soak`, or `python -m tests.durability.soak --help`.

One line for each loop, with N and what was counted; the exit code is 1 when anything that must be 0 is not, or when
the control, a broker that does not sync, loses nothing. What a loop that failed has left is kept, and its place told.
"""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.acceptance.process import FREE_PORTS, BrokerProcess, Trust
from tests.durability.crash.loop import CrashLoop, Cutting, find
from tests.durability.crash.powercut import build_library
from tests.durability.crash.result import Result
from tests.durability.crash.sweep import record_run, sweep
from tests.durability.crash.tasks import TaskLoop
from tests.durability.crash.transfers import Counted, TransferLoop
from tests.durability.crash.transform import TransformLoop
from tests.durability.crash.unsynced import Mode
from tests.durability.damage.outcome import Tally
from tests.durability.damage.plan import soak as damage_soak
from tests.durability.disk.disk_sweep import SWEPT, Sweeper
from tests.durability.follow.loop import FollowLoop
from tests.durability.follow.shards import FollowShardsLoop
from tests.durability.hostile import mix
from tests.durability.load.footprint import measure
from tests.durability.load.long_run import soak
from tests.durability.shards.faults import FaultLoop
from tests.durability.time.pause import stop_and_go_on

CRASHES = 1000
#: Number of processes of the broker whose processes are killed together.
SHARDS = 3
#: With so many cuts the control must have lost something; it is found with the first or the second.
CONTROL_CUTS = 30
#: A round of the mixed load; a thousand of them are an hour.
LOAD_ROUND_SECONDS = 3.6
#: A copy that follows is killed a hundred times in ten minutes.
KILLS_OF_FOLLOWED = 10
FOLLOW_SECONDS = 6.0
#: So many rounds of the other loops take as long as one fault of a shard, about.
ROUNDS_OF_FAULT = 20
#: How often a loop of transfers says how far it is.
KILLS_PER_LINE = 20
PAUSES = 10
PAUSE_SECONDS = 30.0


class Outcome(NamedTuple):
    """What a loop says: one line, whether all is well, and if not, what was found."""

    line: str
    is_good: bool
    findings: str


#: Runs a loop; arguments: an empty directory, how many rounds, and a seed.
Loop = Callable[[Path, int, int], Outcome]


def _kill(directory: Path, count: int, seed: int) -> Outcome:
    loop = CrashLoop(directory / "loop", make_trust(directory), seed=seed, syncs=("always", "interval", "never"))
    return _judged(loop.run("kill", count))


def _kill_shards(directory: Path, count: int, seed: int) -> Outcome:
    loop = CrashLoop(directory / "loop", make_trust(directory), seed=seed, shards=SHARDS)
    return _judged(loop.run("kill-shards", count))


def _shard_faults(directory: Path, count: int, seed: int) -> Outcome:
    """Cause faults of single shards, a twentieth of `count` times; the others must go on."""
    random = Random(seed)
    faults = [random.choice(("kill", "kill", "stop", "low", "full")) for _ in range(max(1, count // ROUNDS_OF_FAULT))]

    def report(counts: Mapping[str, int]) -> None:
        print(f"shard-faults {dict(counts)} of {len(faults)} so far", flush=True)

    loop = FaultLoop(directory / "loop", make_trust(directory), seed, PAUSE_SECONDS, report)
    loop.run(faults)
    loop.judge_others()
    return Outcome(
        f"{loop.line} findings={len(loop.findings)} seed={seed}", not loop.findings, "\n".join(loop.findings)
    )


def _cut(mode: Mode) -> Loop:
    def loop(directory: Path, count: int, seed: int) -> Outcome:
        cutting = Cutting(build_library(directory), mode)
        return _judged(
            CrashLoop(directory / "loop", make_trust(directory), seed=seed, cutting=cutting).run(mode, count)
        )

    return loop


def _control(directory: Path, count: int, seed: int) -> Outcome:
    """The same harness must find what a broker without syncs loses."""
    cutting, trust = Cutting(build_library(directory), Mode.DROP), make_trust(directory)

    def loop(attempt: int) -> CrashLoop:
        place = directory / f"loop-{attempt}"
        return CrashLoop(place, trust, seed=seed + attempt, cutting=cutting, syncs=("never",))

    result = find("lost", loop, "control", min(count, CONTROL_CUTS))
    is_good = result.report.counts["lost"] > 0
    verdict = "finds what a broker that never syncs loses" if is_good else "FINDS NOTHING: the harness is broken"
    return Outcome(f"{result.line()}: {verdict}", is_good, "" if is_good else result.faults())


def _sweep(sync: str) -> Loop:
    """Cut the store alone, `count` times in each mode on average."""

    def loop(directory: Path, count: int, seed: int) -> Outcome:
        entries = record_run(build_library(directory), directory, batches=count, sync=sync)
        result = sweep(entries, directory, count * len(Mode), Random(seed), sync)
        return Outcome(result.line(seed), result.is_clean, "\n".join(result.findings[:20]))

    return loop


def _fail(moment: str, call: str) -> Loop:
    """Make the n-th system call of a kind fail, for each n up to `count`, or until none is hit."""

    def loop(directory: Path, count: int, seed: int) -> Outcome:
        with closing(Sweeper(directory, make_trust(directory))) as sweeper:
            return Outcome(sweeper.sweep(moment, call, count).line(), True, "")

    return loop


def _load(directory: Path, count: int, seed: int) -> Outcome:
    """Run a mixed load on one broker; nothing of it may grow."""
    soaked = soak(directory, make_trust(directory), count * LOAD_ROUND_SECONDS, seed)
    return Outcome(f"{soaked.line()}; seed={seed}", not soaked.findings, "\n".join(soaked.findings))


def _backlog(directory: Path, count: int, seed: int) -> Outcome:
    """Publish and drain 10 MB for each round, and run the tools on them; nothing of it may use memory."""
    measured = measure(directory, make_trust(directory), count)
    line = "\n".join([*measured.lines, f"backlog rounds={count} findings={len(measured.findings)}"])
    return Outcome(line, not measured.findings, "\n".join(measured.findings))


def _hostile(directory: Path, count: int, seed: int) -> Outcome:
    """Run a random mix of hostile clients on one broker, `count` rounds of 3.6 s."""
    mixed = mix.soak(directory, make_trust(directory), count, seed)
    return Outcome(mixed.line(), not mixed.findings, "\n".join(mixed.findings))


def _pause(directory: Path, count: int, seed: int) -> Outcome:
    """Stop the process again and again, for half a minute each."""
    trust, pauses = make_trust(directory), min(count, PAUSES)
    for number in range(pauses):
        (place := directory / f"pause-{number}").mkdir()
        line = stop_and_go_on(place, trust, PAUSE_SECONDS)
    return Outcome(f"{line}; pauses={pauses}", True, "")


def _follow(directory: Path, count: int, seed: int) -> Outcome:
    """Kill a broker and the copy that follows it, a tenth of `count` times in six seconds each on average."""
    kills = max(1, count // KILLS_OF_FOLLOWED)
    judged = FollowLoop(directory, make_trust(directory), seed).run(kills, kills * FOLLOW_SECONDS)
    return Outcome(f"{judged.line()}; seed={seed}", not judged.findings, "\n".join(judged.findings))


def _follow_shards(directory: Path, count: int, seed: int) -> Outcome:
    """Kill shards, the broker, and the copy that follows it, a tenth of `count` times."""
    followed = FollowShardsLoop(directory, seed).follow(max(3, count // KILLS_OF_FOLLOWED))
    return Outcome(f"{followed.line()}; seed={seed}", not followed.findings, "\n".join(followed.findings))


def _transform(directory: Path, count: int, seed: int) -> Outcome:
    """Kill a broker under a pipeline of transactions, `count` times; what comes out must be what went in."""
    judged = TransformLoop(directory, make_trust(directory), seed).run(count)
    return Outcome(f"{judged.line()} seed={seed}", not judged.findings, "\n".join(judged.findings))


def _tasks(directory: Path, count: int, seed: int) -> Outcome:
    """Kill a broker under tasks that delete and redrive, `count` times; each message must be settled once."""
    counted = TaskLoop(directory, make_trust(directory), seed).run(count)
    return Outcome(f"{counted.line()} seed={seed}", not counted.findings, "\n".join(counted.findings))


def _transfers(directory: Path, count: int, seed: int) -> Outcome:
    """Kill processes of a broker with shards, `count` times; each message must be in the last shard once."""

    def report(counted: Counted) -> None:
        if counted.kills % KILLS_PER_LINE == 0:
            print(f"{counted.line()} so far", flush=True)

    counted = TransferLoop(directory, seed, report).run(count)
    return Outcome(f"{counted.line()} seed={seed}", not counted.findings, "\n".join(counted.findings))


def _damage(directory: Path, count: int, seed: int) -> Outcome:
    """Damage files of stores in every way there is, up to 25 times `count` cases of a kind and store."""
    total = Tally()
    for name, tally in damage_soak(directory, 25 * count, Random(seed)):
        print(f"damage {name}: {tally}", flush=True)
        total.add(tally)
    return Outcome(f"damage {total}; seed={seed}", not total.holes, "\n".join(total.holes[:50]))


LOOPS: dict[str, Loop] = {
    "damage": _damage,
    "load": _load,
    "backlog": _backlog,
    "hostile": _hostile,
    "pause": _pause,
    "follow": _follow,
    "follow-shards": _follow_shards,
    "transform": _transform,
    "tasks": _tasks,
    "transfers": _transfers,
    "kill": _kill,
    "kill-shards": _kill_shards,
    "shard-faults": _shard_faults,
    **{mode.value: _cut(mode) for mode in Mode},
    "sweep": _sweep("always"),
    "sweep-interval": _sweep("interval"),
    "control": _control,
    **{f"{moment}-{call}": _fail(moment, call) for moment, calls in SWEPT.items() for call in calls},
}


def _judged(result: Result) -> Outcome:
    return Outcome(result.line(), result.is_clean, result.faults())


def make_trust(directory: Path) -> Trust:
    """Start a broker that makes its certificate."""
    first = BrokerProcess([*FREE_PORTS, "-storage", "memory"], cwd=directory)
    try:
        first.wait_until_ready().stop()
    finally:
        first.end()
    return Trust(directory / "certs")


def main(arguments: Sequence[str] | None = None, loops: Mapping[str, Loop] = LOOPS) -> int:
    """Run the loops that the arguments name; return the exit code."""
    options = _parse(arguments, list(loops))
    directory = Path(tempfile.mkdtemp(prefix="miniqueue-soak-"))
    outcomes = [_run(name, loops[name], directory / name, options) for name in options.loops]
    if all(outcomes):
        directory.rmdir()
    return int(not all(outcomes))


def _run(name: str, loop: Loop, directory: Path, options: argparse.Namespace) -> bool:
    """Run one loop and tell what came of it; keep what it has left if that is not good."""
    directory.mkdir()
    try:
        outcome = loop(directory, options.count, options.seed)
    except Exception:  # whatever it is, the other loops are still worth their time
        outcome = Outcome(f"{name} broke off: seed={options.seed}", False, traceback.format_exc())
    print(outcome.line, flush=True)
    if outcome.is_good:
        shutil.rmtree(directory)
    else:
        print(f"{outcome.findings}\nkept: {directory}", flush=True)
    return outcome.is_good


def _parse(arguments: Sequence[str] | None, loops: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="soak", description="Crash miniqueue again and again, and count what it lost."
    )
    parser.add_argument("loops", nargs="*", metavar="loop", help=f"which to run, of {' '.join(loops)}; all by default")
    parser.add_argument("--count", type=int, default=CRASHES, help="rounds of each loop (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of everything random; the time by default")
    options = parser.parse_args(arguments)
    options.loops = options.loops or loops
    if unknown := [name for name in options.loops if name not in loops]:
        parser.error(f"no such loop: {' '.join(unknown)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
