"""Make directory entries durable: a synced file is lost when the directory does not name it yet.

LevelDB starts a new log whenever its write buffer is full, and does not sync the directory for it.
`DirectorySync` notices this from the directory's modification time (one `fstat`, about 1 µs) and syncs,
before the write is acknowledged. It syncs the logs as well: LevelDB also leaves the log before unsynced, so
that a later synced write would otherwise not cover the earlier, unsynced ones (`SyncMode.INTERVAL`).
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

#: Kernels before 6.13 stamp files with the time of the last clock tick, 4 ms or 10 ms ago. A change in the
#: same tick as the one before cannot be told from it, so a time this young is not trusted to be the last.
TICK_NS = 20_000_000


def sync_path(path: Path, fsync: Callable[[int], None] = os.fsync) -> None:
    """Sync one file or directory by name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fsync(descriptor)
    finally:
        os.close(descriptor)


def log_number(path: Path) -> int:
    """Return the number that LevelDB gave to a log; later ones are larger."""
    return int(path.stem) if path.stem.isdecimal() else 0


class DirectorySync:
    """Syncs a LevelDB directory when it has changed since the last look."""

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
        self._synced_mtime_ns: int | None = None  # None: the next look must sync
        self.used_log = 0  # number of the log that the last batch before the last sync went to, or one before it

    def sync_if_changed(self) -> None:
        """Sync the logs and the directory if any file was made, renamed or removed since the last call."""
        mtime_ns = os.fstat(self._descriptor).st_mtime_ns
        if mtime_ns == self._synced_mtime_ns:
            return
        is_newest_used = self.sync_logs()
        self._fsync(self._descriptor)
        is_settled = is_newest_used and abs(self._now_ns() - mtime_ns) > TICK_NS
        self._synced_mtime_ns = mtime_ns if is_settled else None

    def sync_logs(self) -> bool:
        """Sync every log; return whether the newest has been written to: another may take what is written next.

        The oldest first: a power cut in between would leave a hole if a later one alone was on the disk.
        """
        newest = 0
        for path in sorted(self._directory.glob("*.log"), key=log_number):
            newest = max(newest, log_number(path))
            try:
                sync_path(path, self._fsync)
                if path.stat().st_size:
                    self.used_log = max(self.used_log, log_number(path))
            except FileNotFoundError:
                continue  # its content is in a table by now, which LevelDB synced before it removed the log
        return newest == self.used_log

    def close(self) -> None:
        """Close the directory; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
