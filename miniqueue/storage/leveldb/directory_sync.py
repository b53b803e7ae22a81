"""Makes directory entries durable: a synced file is lost if the directory on the disk does not contain it.

LevelDB begins a new log whenever its write buffer is full, and does not sync the directory. `DirectorySync` detects
this from the directory's modification time (one `fstat`, about 1 µs), and syncs before the write is acknowledged. It
also syncs the logs: LevelDB does not sync the previous log, so a later synced write would not cover earlier unsynced
writes (`SyncMode.INTERVAL`).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

#: Kernels before 6.13 stamp files with the time of the last clock tick, up to 4 ms or 10 ms ago. Two changes in one
#: tick have the same time, so a modification time younger than this does not prove that no change followed.
TICK_NS = 20_000_000


def sync_path(path: Path, fsync: Callable[[int], None] = os.fsync) -> None:
    """Sync one file or directory by name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def log_number(path: Path) -> int:
    """Return LevelDB's number of a log; later logs have larger numbers."""
    return int(path.stem) if path.stem.isdecimal() else 0


class DirectorySync:
    """Syncs a LevelDB directory if it has changed since the last check."""

    def __init__(
        self,
        directory: Path,
        *,
        fsync: Callable[[int], None] = os.fsync,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._directory = directory
        self._fsync = fsync
        self._now_ns = now_ns
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._synced_mtime_ns: int | None = None  # None: the next check must sync
        self.used_log = 0  # log of the last batch before the last sync, or an earlier log

    def sync_if_changed(self) -> None:
        """Sync the logs and the directory if a file was created, renamed, or removed since the last call."""
        mtime_ns = os.fstat(self._descriptor).st_mtime_ns
        if mtime_ns == self._synced_mtime_ns:
            return
        is_newest_used = self.sync_logs()
        self._fsync(self._descriptor)
        is_settled = is_newest_used and abs(self._now_ns() - mtime_ns) > TICK_NS
        self._synced_mtime_ns = mtime_ns if is_settled else None

    def sync_logs(self) -> bool:
        """Sync every log; return whether the newest log contains data; otherwise the next write may go to another log.

        The oldest log comes first: after a power failure in between, a later log alone would leave a hole.
        """
        newest = 0
        for path in sorted(self._directory.glob("*.log"), key=log_number):
            newest = max(newest, log_number(path))
            try:
                sync_path(path, self._fsync)
                if path.stat().st_size:
                    self.used_log = max(self.used_log, log_number(path))
            except FileNotFoundError:
                continue  # LevelDB removes a log after it has synced a table with its content
        return newest == self.used_log

    def close(self) -> None:
        """Close the directory; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
