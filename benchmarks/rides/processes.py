"""Processes of a run: started in its directory, each with a log there, and ended by their ids."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]


def start(directory: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    """Start Python with these words, as the leader of a session of processes; it says `<name>.log`."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    with log_of(directory, name).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": path},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def log_of(directory: Path, name: str) -> Path:
    """Return where a process has its log."""
    return directory / f"{name}.log"


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM, seconds: float = 60) -> None:
    """Send a process a signal, and wait until it is gone; one that takes longer is killed, and its session with it."""
    if process.poll() is None:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
