"""Opens the files of a store without following links, waiting for pipes, or opening devices.

A user who prepares a directory for the broker of another user can create anything under the names that it uses:

    symbolic link              the broker would write to, or truncate, another file        refused
    FIFO, socket, device       opening it waits for a peer, or has a side effect           refused
    regular file, directory    expected                                                    opened

`open_file` protects the files that miniqueue opens itself, at the moment it opens them. LevelDB opens its own files by
name, so `refuse_special_files` checks all names of a store directory before LevelDB opens them.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from miniqueue.errors import NotAStoreError

#: A directory that mkfs creates at the root of an ext4 volume, for its own use; only root can read it.
LOST_AND_FOUND = "lost+found"
#: Without O_NONBLOCK, opening a FIFO waits until another process opens its other end.
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Error numbers of Linux for a link, and for a FIFO without a reader, a socket, or a device without a driver.
_SPECIAL_FILE_ERRORS = frozenset((errno.ELOOP, errno.ENXIO, errno.ENODEV))


def open_file(path: Path, flags: int) -> int:
    """Open a regular file, with mode 0600 if it is created; return its descriptor.

    Raises:
      NotAStoreError: the name is that of another kind of file.
      OSError: the file cannot be opened.
    """
    try:
        descriptor = os.open(path, flags | _SAFE, 0o600)
    except OSError as exc:
        if exc.errno in _SPECIAL_FILE_ERRORS:
            raise _refusal(path) from exc
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refusal(path)
    return descriptor


def read_file(path: Path) -> bytes:
    """Return the content of a regular file; raise as `open_file` does."""
    with open(open_file(path, os.O_RDONLY), "rb") as opened:
        return opened.read()


def refuse_special_files(directory: Path) -> None:
    """Raise NotAStoreError if anything in a store directory is neither a regular file nor a directory."""
    for entry in _entries(directory):
        if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
            raise _refusal(Path(entry.path))


def _entries(directory: Path) -> "Iterator[os.DirEntry[str]]":
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name == LOST_AND_FOUND:
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(Path(entry.path))


def _refusal(path: Path) -> NotAStoreError:
    try:
        kind = _kind(path.lstat().st_mode)
    except OSError:
        kind = "not a regular file"
    return NotAStoreError(f"cannot use {path}: it is {kind}; a store has regular files and directories only; remove it")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a directory" if stat.S_ISDIR(mode) else "a device"
