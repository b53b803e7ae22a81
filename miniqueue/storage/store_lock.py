"""One opener per store directory: an advisory lock held for life.

The lock is `flock` on a file of our own, `miniqueue.lock`, which names the owner's process id. LevelDB's own
lock does not do: it is a POSIX record lock, which the owner loses as soon as anything in its process opens
and closes the file, a second failed `DB(path)` included; another process may then write to the same store.
`flock` belongs to the open file, so it also keeps out a second opener in the same process.

The file is never removed: whoever held it open would go on holding a lock that nobody else can see. In case somebody
else removes it, and LevelDB's with it, the directory itself is locked too, where the file system can do that.
"""

import fcntl
import os
from pathlib import Path

from miniqueue.errors import StoreInUseError
from miniqueue.storage.own_files import open_file

LOCK_FILE_NAME = "miniqueue.lock"


class StoreLock:
    """The exclusive right to a store directory, until `release` or the end of the process."""

    def __init__(self, directory: Path, *, leaves_trace: bool = True) -> None:
        """Take the lock, at once or not at all.

        Args:
          directory: of the store.
          leaves_trace: make the lock file if need be and write into it who has it; otherwise no byte is changed.

        Raises:
          StoreInUseError: somebody else holds it.
          NotAStoreError: the lock file is a symbolic link or another special file.
          OSError: the lock file cannot be made or written, or is not there.
        """
        path = directory / LOCK_FILE_NAME
        access = os.O_RDWR | os.O_CREAT if leaves_trace else os.O_RDONLY
        self._descriptor = open_file(path, access)
        self._directory = -1
        try:
            self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._lock(directory)
            if leaves_trace:
                self._write_owner()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back; safe to call twice."""
        descriptors = (self._directory, self._descriptor)
        self._directory = self._descriptor = -1
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def _lock(self, directory: Path) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_directory(self._directory)
        except BlockingIOError as exc:
            raise StoreInUseError(f"{directory} is in use by {self._owner()}") from exc

    def _write_owner(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def _owner(self) -> str:
        pid = os.pread(self._descriptor, 32, 0).strip()  # empty while the owner is just writing it
        return f"process {int(pid)}" if pid.isdigit() else "another process"


def _lock_directory(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # NFS locks only what can be written to; the file is locked
