"""What a process takes, as the kernel tells it, and how a wait for something is written."""

import os
import time
from collections.abc import Callable
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PATIENCE_SECONDS = 60


def rss_bytes(pid: int) -> int:
    """Return how much memory the process has in RAM."""
    return _status_bytes(pid, "VmRSS:")


def own_bytes(pid: int) -> int:
    """Return how much of that is its own: without files that are mapped, which the system drops when it needs room."""
    return _status_bytes(pid, "RssAnon:")


def file_bytes(pid: int) -> int:
    """Return how much of that are pages of files that are mapped."""
    return _status_bytes(pid, "RssFile:")


def _status_bytes(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(name)[2].split()[0]) << 10


def cpu_seconds(pid: int) -> float:
    """Return the processor time that the process has taken since its start."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_SECOND


def descriptor_count(pid: int) -> int:
    """Return how many descriptors the process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def state(pid: int) -> str:
    """Return the letter of the process's state: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(is_true: Callable[[], object], what: str) -> None:
    """Wait for something that another process brings about; fails when it does not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"not in {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.01)
