"""Tells what a long run of pytest-xdist is at, and ends one that stands still.

pytest-timeout ends a test from within its process, but stops its timer when a test fails, for debuggers. A fixture that
is left can then wait without end for what the test has not done. So the timer is set again.

Nor can it end a process that is stopped, or waits in a library that handles no signals. So the process that assigns the
tests watches the others: it has all of their stacks printed, and ends them, if no test has ended for `STILL_SECONDS`,
or the run takes `RUN_SECONDS`. What they ran has failed then.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import Final

import pytest
from pytest_timeout import Settings

#: How often a run says what it is at.
SAID_SECONDS: Final = 300
#: Longer than any test may take (tests/conftest.py).
STILL_SECONDS: Final = 1500
#: Several times what a run takes on two cores.
RUN_SECONDS: Final = 4500
#: How often it looks.
LOOK_SECONDS: Final = 10
#: How long a process has for printing its stacks.
STACKS_SECONDS: Final = 5


class Overseer:
    """Knows which tests run, and since when; a plugin of the process that assigns them."""

    def __init__(
        self, say: Callable[[str], None], end: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Say lines with `say`, read the time in seconds from `clock`, and end the processes of tests with `end`."""
        self._say = say
        self._end = end
        self._clock = clock
        self._started_at = self._said_at = self._ended_at = clock()
        self._must_end_by = self._started_at + RUN_SECONDS
        self._running: dict[str, float] = {}
        self._count = 0

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = self._clock()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        self._count += 1
        self._ended_at = self._clock()

    def look(self) -> None:
        """Say what runs, if nothing was said for long; end what runs, if it takes too long."""
        now = self._clock()
        is_still = now - self._ended_at >= STILL_SECONDS
        is_over = now >= self._must_end_by
        if is_still or is_over or now - self._said_at >= SAID_SECONDS:
            self._said_at = now
            self._say(f"{self._count} tests in {now - self._started_at:.0f} s, load {os.getloadavg()[0]:.1f}; running:")
            for test, started_at in self._running.items():
                self._say(f"  {now - started_at:.0f} s {test}")
        if is_still or is_over:
            self._say(f"no test has ended for {now - self._ended_at:.0f} s" if is_still else "the run takes too long")
            self._ended_at = now
            self._must_end_by = now + STILL_SECONDS
            self._end()


def end_children(stacks_seconds: float = STACKS_SECONDS) -> None:
    """List all processes; have each child print its stacks, even a stopped one; end it, and all that it started."""
    listing = ["ps", "-e", "-o", "pid,ppid,stat,etimes,wchan:20,args", "--forest", "--columns=200"]
    print(listed := subprocess.run(listing, capture_output=True, text=True, check=True).stdout, flush=True)
    below: dict[int, list[int]] = {}
    for line in listed.splitlines()[1:]:
        pid, parent = map(int, line.split()[:2])
        below.setdefault(parent, []).append(pid)
    children = started = below.get(os.getpid(), [])
    _send(signal.SIGABRT, children)
    while started := [pid for parent in started for pid in below.get(parent, [])]:
        _send(signal.SIGKILL, started)
    for number in (signal.SIGCONT, signal.SIGKILL):
        time.sleep(stacks_seconds)  # while they print: a process does not tell when it has
        _send(number, children)


def _send(number: signal.Signals, pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.hookimpl(trylast=True)  # behind pytest-timeout
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Limit the time in which the fixtures of a test that has failed are left."""
    if isinstance(node, pytest.Item) and (seconds := float(node.config.getini("timeout") or 0)):
        settings = Settings(seconds, "signal", func_only=False, disable_debugger_detection=False)
        node.config.pluginmanager.hook.pytest_timeout_set_timer(item=node, settings=settings)


@pytest.hookimpl(trylast=True)  # when there is a reporter
def pytest_configure(config: pytest.Config) -> None:
    """Oversee the run if this process only assigns tests."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput") or reporter is None:
        return
    overseer = Overseer(reporter.write_line, end_children)
    config.pluginmanager.register(overseer)
    is_over = Event()
    config.add_cleanup(is_over.set)

    def watch() -> None:
        while not is_over.wait(LOOK_SECONDS):
            overseer.look()

    Thread(target=watch, daemon=True, name="overseer").start()
