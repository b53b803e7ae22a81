"""Space kept free on the disk: a mark below which no messages are taken, and a ballast for when it is full.

    miniqueue.ballast      a file of a fixed size that holds nothing

    free on the disk     0 ────────── min_free ────────── min_free + a quarter ──────────▶
    new messages             refused │      as before         │ taken

LevelDB on a full disk can neither settle messages nor be opened: both write. Without space even what would free
space is impossible. So the mark keeps some for settling, and when something else has filled the disk the ballast
is given back. Messages are taken again when there is enough for the ballast and some more: what is free must be
above the mark with the ballast back in its place, by a quarter of the mark or of the ballast, whichever is more.

Opening LevelDB rewrites its logs as tables: a ballast is of use when it is larger than the logs, which are about
as large as its write buffer (`DatabaseOptions`).
"""

import os
from dataclasses import dataclass
from pathlib import Path

from miniqueue.storage.database import NO_SPACE
from miniqueue.storage.own_files import open_file
from miniqueue.storage.port import Room

BALLAST_FILE_NAME = "miniqueue.ballast"
#: What must be free to take messages after the disk was full, also when no reserve is wanted.
LEAST_BYTES_TO_RESUME = 1 << 20


@dataclass(frozen=True, slots=True)
class ReserveOptions:
    """How much space to keep.

    Attributes:
      min_free_bytes: no messages are taken while less is free on the disk.
      ballast_bytes: the size of the ballast.
    """

    min_free_bytes: int = 0
    ballast_bytes: int = 0

    @property
    def resume_bytes(self) -> int:
        """What must be free to take messages again, with the ballast in its place."""
        margin_bytes = max(self.min_free_bytes, self.ballast_bytes) // 4
        return self.min_free_bytes + max(margin_bytes, LEAST_BYTES_TO_RESUME)


class Reserve:
    """The reserve of one store directory. Blocking; `look` is called by one thread at a time."""

    def __init__(self, directory: Path, options: ReserveOptions | None = None) -> None:
        self._directory = directory
        self._ballast = directory / BALLAST_FILE_NAME
        self._options = options or ReserveOptions()
        self._is_laid = False  # a ballast that was found may be a copy with holes in place of space

    def give_back(self) -> bool:
        """Free the space of the ballast; return whether there was one."""
        try:
            self._ballast.unlink()
        except OSError:
            return False  # there is none, or the disk has worse faults than being full
        return True

    def look(self, *, is_full: bool) -> Room:
        """Tell whether there is room for messages, and lay the ballast if there is room for it too.

        Args:
          is_full: whether there was not, the last time.

        Raises OSError when the disk cannot be looked at, or the ballast not be laid for another reason than space.
        """
        wanted_bytes = self._options.resume_bytes if is_full else self._options.min_free_bytes
        missing_bytes = self._missing_bytes()
        free_bytes = self._free_bytes()
        is_enough = free_bytes - missing_bytes >= wanted_bytes and (self._is_in_place() or self._lay())
        return Room(is_enough, free_bytes)

    def _free_bytes(self) -> int:
        """Return what is free for this user: the system may keep some for root."""
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize

    def _is_in_place(self) -> bool:
        return self._is_laid and self._found()[0] == self._options.ballast_bytes

    def _missing_bytes(self) -> int:
        """Return how much less will be free when the ballast has been laid."""
        return 0 if self._is_in_place() else max(0, self._options.ballast_bytes - self._found()[1])

    def _found(self) -> tuple[int, int]:
        """Return the size of the ballast and what it takes on the disk; 0 and 0 when there is none."""
        try:
            found = self._ballast.lstat()
        except FileNotFoundError:
            return 0, 0
        return found.st_size, found.st_blocks * 512

    def _lay(self) -> bool:
        """Make the ballast what it should be; return whether there was room for it."""
        try:
            self._allocate()
        except OSError as exc:
            self.give_back()
            if exc.errno in NO_SPACE:
                return False
            raise
        self._is_laid = True
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
