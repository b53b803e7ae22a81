"""Space that is kept free on the disk: a threshold below which messages are refused, and a ballast for a full disk.

    miniqueue.ballast      a file of a fixed size without content

    free on the disk     0 ────────── min_free ────────── min_free + a quarter ──────────▶
    new messages             refused │      as before         │ accepted

On a full disk, LevelDB can neither settle messages nor be opened, since both write. Even operations that would free
space are impossible. So the threshold reserves space for settling, and if another program fills the disk, the ballast
is released. Messages are accepted again if there is space for the ballast and more: with the ballast in place, the
free space must exceed the threshold by a quarter of the threshold or of the ballast, whichever is larger.

When LevelDB is opened, it rewrites its logs as tables, so a ballast is useful only if it is larger than the logs, which
are about as large as its write buffer (`DatabaseOptions`).
"""

import os
from dataclasses import dataclass
from pathlib import Path

from miniqueue.storage.leveldb.database import NO_SPACE
from miniqueue.storage.leveldb.own_files import open_file
from miniqueue.storage.port import Room

BALLAST_FILE_NAME = "miniqueue.ballast"
#: Minimum free space before messages are accepted again after the disk was full, even without a reserve.
LEAST_BYTES_TO_RESUME = 1 << 20


@dataclass(frozen=True, slots=True)
class ReserveOptions:
    """The size of the reserve.

    Attributes:
      min_free_bytes: minimum free space; below it, messages are refused.
      ballast_bytes: size of the ballast; 0 means none.
    """

    min_free_bytes: int = 0
    ballast_bytes: int = 0

    @property
    def resume_bytes(self) -> int:
        """Minimum free space, with the ballast in place, before messages are accepted again."""
        margin_bytes = max(self.min_free_bytes, self.ballast_bytes) // 4
        return self.min_free_bytes + max(margin_bytes, LEAST_BYTES_TO_RESUME)


class Reserve:
    """The reserve of one store directory. Blocking; `look` is called by one thread at a time."""

    def __init__(self, directory: Path, options: ReserveOptions | None = None) -> None:
        self._directory = directory
        self._ballast = directory / BALLAST_FILE_NAME
        self._options = options or ReserveOptions()
        self._is_created = False  # an existing ballast may be a copy with holes instead of space

    def release(self) -> bool:
        """Remove the ballast; return whether there was one."""
        try:
            self._ballast.unlink()
        except OSError:
            return False  # there is no ballast, or the disk fails otherwise
        return True

    def look(self, *, is_full: bool) -> Room:
        """Return whether there is room for messages; create the ballast if there is room for it, too.

        Args:
          is_full: whether there was no room at the last call.

        Raises OSError if the disk cannot be inspected, or the ballast cannot be created for another reason than space.
        """
        wanted_bytes = self._options.resume_bytes if is_full else self._options.min_free_bytes
        missing_bytes = self._missing_bytes()
        free_bytes = self._free_bytes()
        is_enough = free_bytes - missing_bytes >= wanted_bytes and (self._is_in_place() or self._create())
        return Room(is_enough, free_bytes)

    def _free_bytes(self) -> int:
        """Return the free space for this user; the system may reserve some for root."""
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize

    def _is_in_place(self) -> bool:
        return self._is_created and self._sizes()[0] == self._options.ballast_bytes

    def _missing_bytes(self) -> int:
        """Return the space that the missing part of the ballast needs."""
        return 0 if self._is_in_place() else max(0, self._options.ballast_bytes - self._sizes()[1])

    def _sizes(self) -> tuple[int, int]:
        """Return the size of the ballast and its space on the disk; 0 and 0 if there is none."""
        try:
            status = self._ballast.lstat()
        except FileNotFoundError:
            return 0, 0
        return status.st_size, status.st_blocks * 512

    def _create(self) -> bool:
        """Create the ballast with its full size; return whether there was room for it."""
        try:
            self._allocate()
        except OSError as exc:
            self.release()
            if exc.errno in NO_SPACE:
                return False
            raise
        self._is_created = True
        return True

    def _allocate(self) -> None:
        if self._options.ballast_bytes == 0:
            self._ballast.unlink(missing_ok=True)
            return
        descriptor = open_file(self._ballast, os.O_WRONLY | os.O_CREAT)
        try:
            os.ftruncate(descriptor, min(os.fstat(descriptor).st_size, self._options.ballast_bytes))
            os.posix_fallocate(descriptor, 0, self._options.ballast_bytes)
        finally:
            os.close(descriptor)
