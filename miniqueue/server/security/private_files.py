"""Writing small private files so that a crash leaves the old or the new content, and other users cannot read them.

    1. write each content to a new file in the same directory (created with mode 0600), and sync it to disk
    2. when all are written, rename each to its target: a reader sees the old file or the new one

A crash in between leaves a file named `.<random>.<name>`, which no program reads.
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
    """The content and the permission bits of a file to write."""

    path: Path
    content: bytes
    mode: int = 0o600


def write_files(files: Sequence[FileToWrite]) -> None:
    """Write `files`, and rename them to their paths in this order.

    Raises:
      OSError: no file was renamed, or only the first ones.
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
    """While the block runs, create files with mode 0600 and directories with 0700, even those that LevelDB creates."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock `directory` against other processes that call this, while the block runs."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems have no locks; then two first startups can race
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
