"""The lock of a store directory: an advisory lock that one opener holds until it closes the store.

The lock is `flock` on the file `miniqueue.lock`, which contains the process id of the owner. LevelDB's own lock is not
sufficient: it is a POSIX record lock, which the owner loses as soon as any code in its process opens and closes the
file, for example in a second, failed `DB(path)`; another process can then write to the same store. `flock` belongs to
the open file, so it also excludes a second opener in the same process.

The file is never removed: a process that has it open would keep a lock that no other process can see. In case a user
removes this file and LevelDB's lock file, the directory itself is also locked, if the file system supports it.
"""

import fcntl
import os
from pathlib import Path

from miniqueue.errors import StoreInUseError
from miniqueue.storage.leveldb.own_files import open_file

LOCK_FILE_NAME = "miniqueue.lock"


class StoreLock:
    """The exclusive right to a store directory, until `release` or the end of the process."""

    def __init__(self, directory: Path, *, leaves_trace: bool = True) -> None:
        """Take the lock, at once or not at all.

        Args:
          directory: directory of the store.
          leaves_trace: whether to create the lock file if necessary, and to write the process id to it; otherwise no
            byte is changed.

        Raises:
          StoreInUseError: another opener holds the lock.
          NotAStoreError: the lock file is a symbolic link or another special file.
          OSError: the lock file cannot be created or written, or is missing.
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
        """Release the lock; safe to call twice."""
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
        pid = os.pread(self._descriptor, 32, 0).strip()  # empty while the owner writes it
        return f"process {int(pid)}" if pid.isdigit() else "another process"


def _lock_directory(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return  # NFS can lock only writable files; the lock file is locked
