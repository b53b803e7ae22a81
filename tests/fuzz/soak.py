"""Fuzzing for as long as one likes: `python -m tests.fuzz.soak [target …] [--seconds N] [--seed N]`.

Each target has a process of its own, so that a crash in C is reported, too; as many run at a time as there are
processors. A line for each says with which seed, how many inputs there were and how fast; the exit code is 1 when
something was found. The same seed makes the same inputs.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.engine import FoundError, fuzz
from tests.fuzz.targets import TARGETS

_ROOT = Path(__file__).parents[2]
_MODULE = "tests.fuzz.soak"  # `__name__` is `__main__` when it is run as the command
#: Beside the time asked for: a start, the input under way, and the last look at memory.
_GRACE_SECONDS = 60.0

Runs = dict[str, "Future[tuple[bool, str]]"]


@contextmanager
def running(names: Sequence[str], seconds: float, seed: int) -> Iterator[Runs]:
    """Run targets, each in a process; the results are whether nothing was found, and what was said."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            yield {name: pool.submit(_run_alone, name, seconds, seed) for name in names}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _run_alone(name: str, seconds: float, seed: int) -> tuple[bool, str]:
    command = [sys.executable, "-X", "faulthandler", "-m", _MODULE, name, f"--seconds={seconds}", f"--seed={seed}"]
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds + _GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"fuzz {name}: seed={seed}: an input takes more than {_GRACE_SECONDS:.0f} s"
    said = done.stdout.strip()
    return done.returncode == 0, said if done.returncode in (0, 1) else f"{said}\nfuzz {name}: seed={seed}: it crashed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets that the arguments name; return the exit code."""
    options = _parse(arguments)
    if len(options.targets) == 1:
        return _run_here(options.targets[0], options.seconds, options.seed)
    with running(options.targets or list(TARGETS), options.seconds, options.seed) as runs:
        outcomes = [_told(run) for run in runs.values()]
    return int(not all(outcomes))


def _run_here(name: str, seconds: float, seed: int) -> int:
    try:
        print(fuzz(TARGETS[name], seed, seconds=seconds), flush=True)
    except FoundError as found:
        print(found, flush=True)
        return 1
    return 0


def _told(run: "Future[tuple[bool, str]]") -> bool:
    is_good, said = run.result()
    print(said, flush=True)
    return is_good


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description="Feed hostile input to every parser of miniqueue.")
    parser.add_argument("targets", nargs="*", metavar="target", help=f"of {' '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each target (%(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the time by default")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.targets if name not in TARGETS]:
        parser.error(f"no such target: {' '.join(unknown)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
