"""The three workers; every few seconds one of them is killed, or stopped until its leases are over."""

import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.rides import processes
from benchmarks.rides.working import LEASE_SECONDS

#: Interval between two disturbances of a worker.
_EVERY_SECONDS: Final = 15.0
STOP_SECONDS: Final = LEASE_SECONDS + 2


class Crew:
    """The workers, which run and are disturbed while its `with` block runs.

    Args:
      directory: the directory of the run.
      words: returns the command of a worker with a file of notes.
      notes: a file for each worker.
      seed: the seed of the disturbances.
      tell: called with each disturbance.

    Attributes:
      members: the processes, by number, from 1 on.
      kills: number of workers killed so far.
      stops: number of workers stopped so far.
    """

    def __init__(
        self,
        directory: Path,
        words: Callable[[Path], list[str]],
        notes: Sequence[Path],
        seed: int,
        tell: Callable[[str], None],
    ) -> None:
        self.members: dict[int, subprocess.Popen[bytes]] = {}
        self.kills = self.stops = 0
        self._directory, self._words, self._notes, self._tell = directory, words, notes, tell
        self._random = Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._disturb, name="disturber")

    def __enter__(self) -> "Crew":
        for number in range(1, len(self._notes) + 1):
            self._start(number)
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        for process in self.members.values():
            processes.end(process)

    def _start(self, number: int) -> None:
        self.members[number] = processes.start(
            self._directory, f"worker-{number}", *self._words(self._notes[number - 1])
        )

    def _disturb(self) -> None:
        while not self._is_over.wait(_EVERY_SECONDS):
            number = self._random.randint(1, len(self._notes))
            if self._random.random() < 0.5:
                self._kill(number)
            else:
                self._stop(number)

    def _kill(self, number: int) -> None:
        processes.end(self.members[number], signal.SIGKILL)
        self.kills += 1
        self._tell(f"kill worker {number}")
        self._start(number)

    def _stop(self, number: int) -> None:
        self.members[number].send_signal(signal.SIGSTOP)
        self.stops += 1
        self._tell(f"stop worker {number}")
        self._is_over.wait(STOP_SECONDS)
        self.members[number].send_signal(signal.SIGCONT)
