"""Let the n-th call fail, for every n until none is hit, as SQLite tests its own handling of I/O errors.

    make soak ARGS='running-fdatasync starting-rename'        or any other moment and call of `SWEPT`

For each n: a broker runs (or starts), the n-th call of each thread fails once, and it must go on without a restart,
or refuse to start; then it is killed, `miniqueue check` must find nothing, and everything acknowledged must be there.
One line for each kind of call, with how many n were tried, how many calls failed, and how the broker answered.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.process import Trust
from tests.durability.disk import strace
from tests.durability.disk.broker import DiskBroker

#: The moments and the calls.
SWEPT = {
    "running": ("fdatasync", "fsync", "write", "pwrite64", "openat", "unlink"),
    "starting": ("fdatasync", "fsync", "write", "pwrite64", "openat", "rename"),
}
#: Enough for a few logs and tables, and for what was written before them to be merged.
MESSAGES = 25
MESSAGES_AT_A_START = 3
FAULT_SECONDS = 1.0
ROUND_SECONDS = 60.0
#: The calls of two threads differ a little from run to run: so many n in a row must hit nothing.
MISSES_TO_END = 3


@dataclass
class Sweep:
    """What came of one kind of call."""

    moment: str
    call: str
    rounds: int = 0
    hits: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        return f"{self.moment}-{self.call}: n = 1..{self.rounds}, {self.hits} calls failed; {outcomes}; lost 0"


class Sweeper:
    """Goes through the n of one kind of call after the other, on one store; close it when done with it."""

    def __init__(self, directory: Path, trust: Trust) -> None:
        self.broker = DiskBroker(directory, trust, directory / "data", ["-ballast", "1MiB"])
        self._report = directory / "strace.txt"

    def close(self) -> None:
        """Leave nothing running."""
        self.broker.end()

    def sweep(self, moment: str, call: str, max_rounds: int) -> Sweep:
        """Try every n until none is hit; raises AssertionError when a promise is broken."""
        sweep = Sweep(moment, call)
        misses = 0
        while misses < MISSES_TO_END and sweep.rounds < max_rounds:
            sweep.rounds += 1
            hit_count = self.round(moment, call, sweep.rounds, sweep.outcomes)
            sweep.hits += hit_count
            misses = 0 if hit_count else misses + 1
        return sweep

    def round(self, moment: str, call: str, n: int, outcomes: Counter[str]) -> int:
        """Make one call of each thread fail; return how many did."""
        self._report.unlink(missing_ok=True)
        self.broker.replies.clear()
        (self._run if moment == "running" else self._start)(call, n, outcomes)
        outcomes.update(self.broker.replies)
        self.broker.settle_accounts()
        return strace.hit_count(self._report)

    def _run(self, call: str, n: int, outcomes: Counter[str]) -> None:
        self.broker.start()
        paths = strace.files_of(self.broker.database)
        with strace.failing(self.broker.pid, call, "error=EIO", str(n), self._report, paths):
            self._publish(MESSAGES, FAULT_SECONDS)  # a small n is hit at every attempt to reopen the store
        self.broker.wait_until_ready()
        assert self._publish(MESSAGES_AT_A_START)

    def _start(self, call: str, n: int, outcomes: Counter[str]) -> None:
        self._put_something_in_the_log()
        paths = strace.files_of(self.broker.database)
        process = self.broker.launch(*strace.starting(call, "error=EIO", str(n), self._report, paths))
        try:
            process.wait_until_ready()
        except AssertionError:
            outcomes[f"exit {process.wait()}"] += 1
            assert process.process.returncode == 71, process.output
        else:
            self._publish(MESSAGES_AT_A_START, FAULT_SECONDS)  # the first calls of every new thread fail as well

    def _put_something_in_the_log(self) -> None:
        self.broker.start()
        assert self._publish(MESSAGES_AT_A_START)
        self.broker.end()

    def _publish(self, count: int, seconds: float = ROUND_SECONDS) -> bool:
        """Publish until so many are acknowledged, or have been tried and the time is up; return whether they were."""
        connection = self.broker.connect()
        deadline, untried = time.monotonic() + seconds, count
        while count and (untried > 0 or time.monotonic() < deadline):
            untried -= 1
            if self.broker.publish(connection) == "OK":
                count -= 1
            else:
                time.sleep(0.02)  # there is nothing to wait on in another process
        connection.close()
        return not count
