"""System calls of a running process that fail, or take long, for as long as a block lasts.

strace counts calls per thread. `-P` limits a fault to files of the store: sockets are written to as well.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from tests.acceptance.process import START_SECONDS

#: LevelDB numbers its files; so many are named to strace, beginning with the next.
FILES_AHEAD = 150


def need_strace() -> str:
    """Return the command; skips the test where there is none, or where it may not look into other processes."""
    command = shutil.which("strace")
    if command is None:
        pytest.skip("there is no strace here")
    probe = subprocess.run([command, "-qq", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"strace may not trace here: {probe.stderr.strip()}")
    return command


def files_of(database: Path) -> list[str]:
    """Return the names that the store's files have and will have for some time."""
    numbers = [int(found[0]) for path in (database / "db").iterdir() if (found := re.search(r"\d{6}", path.name))]
    ahead = range(max(numbers), max(numbers) + FILES_AHEAD)
    names = [f"db/{n:06}.{suffix}" for n in (max(numbers) - 1, *ahead) for suffix in ("log", "ldb", "dbtmp")]
    names += [f"db/MANIFEST-{n:06}" for n in ahead]
    names += ["db", "db/CURRENT", "miniqueue.lock", "miniqueue.format", "miniqueue.acknowledged"]
    return [str(database / name) for name in names]


def starting(calls: str, fault: str, when: str, report: Path, paths: Sequence[str]) -> list[str]:
    """Return the words in front of a command whose calls shall fail from its start on; it keeps its process id."""
    return [need_strace(), "-D", "--seccomp-bpf", *injection(calls, fault, when, paths), "-o", str(report)]


def injection(calls: str, fault: str, when: str, paths: Sequence[str] = ()) -> list[str]:
    """Return strace's arguments: in which calls, what fault, from or at which call of each thread."""
    where = [word for path in paths for word in ("-P", path)]
    return ["-f", "-e", "signal=none", "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}:when={when}", *where]


@contextmanager
def failing(pid: int, calls: str, fault: str, when: str, report: Path, paths: Sequence[str] = ()) -> Iterator[None]:
    """Make calls of a process fail while the block runs; `report` then lists them."""
    command = [need_strace(), *injection(calls, fault, when, paths), "-o", str(report), "-p", str(pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        watchdog = Timer(START_SECONDS, tracer.kill)
        watchdog.start()
        try:
            assert any("attached" in line for line in tracer.stderr), f"strace has not begun in {START_SECONDS} s"
            watchdog.cancel()
            yield
        finally:
            tracer.send_signal(signal.SIGINT)  # it lets go of the process
            _end(tracer)
            watchdog.cancel()


def _end(tracer: subprocess.Popen[str]) -> None:
    """Wait until strace has ended; kill it when it does not, which lets go of the process too."""
    try:
        tracer.communicate(timeout=START_SECONDS)
    except subprocess.TimeoutExpired:
        tracer.kill()
        raise


def hit_count(report: Path) -> int:
    """Return how many calls were changed."""
    return len(re.findall(r"\((?:INJECTED|DELAYED)\)", report.read_text())) if report.exists() else 0
