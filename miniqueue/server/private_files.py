"""Writing small files that a crash must not halve and that others may not read.

    1. every content goes into a new file beside its target (mode 0600 from its first moment), and to the disk
    2. only when all are there, each is renamed over its target: a reader sees the old file or the new one

A crash in between leaves a file called `.<random>.<name>`, which nothing reads.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileToWrite:
    """What one file shall hold, and its permission bits."""

    path: Path
    content: bytes
    mode: int = 0o600


def write_files(files: Sequence[FileToWrite]) -> None:
    """Write `files`, renaming them in the order given.

    Raises:
      OSError: nothing was renamed, or only the first of the files.
    """
    staged: list[Path] = []
    try:
        for file in files:
            staged.append(file.path.with_name(f".{secrets.token_hex(8)}.{file.path.name}"))
            _write(staged[-1], file)
        for temporary, file in zip(staged, files, strict=True):
            os.replace(temporary, file.path)
        for directory in {file.path.parent for file in files}:
            _sync_directory(directory)
    finally:
        for temporary in staged:
            temporary.unlink(missing_ok=True)


@contextmanager
def private_umask() -> Iterator[None]:
    """Have all files made with mode 0600 and all directories with 0700 meanwhile, also by LevelDB."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes that ask for the same lock out of `directory`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems cannot; then two first starts may race
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(temporary: Path, file: FileToWrite) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as stream:
        os.fchmod(descriptor, file.mode)
        stream.write(file.content)
        stream.flush()
        os.fsync(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
