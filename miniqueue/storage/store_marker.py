r"""The file that says "this directory is a miniqueue store" and in which format.

    miniqueue.format      miniqueue store, format 4\n

Formats 1 to 3 are read, too. Format 1 wrote HEAD with every chunk and counted commits in COMMIT, neither 1 nor 2 had
SETTINGS, and none of them what 4 has more; all that is true of any store of format 4 that was only ever read. So the
marker alone is raised, before anything else is written.

LevelDB asked to create what is missing wipes a store that has lost its CURRENT file. So a database is created
only where no marker is, and opened only where one is.
"""

import os
import re
from pathlib import Path

from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.directory_sync import sync_path
from miniqueue.storage.own_files import open_file, read_file

MARKER_FILE_NAME = "miniqueue.format"
UNFINISHED_MARKER_NAME = "miniqueue.format.unfinished"
FORMAT_VERSION = 4
_OLDEST_READ = 1

_MARKER = re.compile(rb"miniqueue store, format ([0-9]{1,9})\n")


def check_marker(directory: Path) -> None:
    """Make sure that the store in `directory` is in a format that this version reads.

    Raises:
      FormatVersionError: it is in another one.
      CorruptionError: the marker file says something else.
    """
    if not _OLDEST_READ <= (found := _version(directory)) <= FORMAT_VERSION:
        raise FormatVersionError(str(directory / MARKER_FILE_NAME), found=found, expected=FORMAT_VERSION)


def raise_marker(directory: Path) -> None:
    """Let the marker of a store that was checked say the format that this version writes."""
    if _version(directory) < FORMAT_VERSION:
        write_marker(directory)
        sync_path(directory)


def _version(directory: Path) -> int:
    path = directory / MARKER_FILE_NAME
    match = _MARKER.fullmatch(read_file(path))
    if match is None:
        raise CorruptionError(f"{path}: not a miniqueue marker")
    return int(match[1])


def write_marker(directory: Path) -> None:
    """Write the marker whole or not at all: a new file, synced, then given its name."""
    unfinished = directory / UNFINISHED_MARKER_NAME
    descriptor = open_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, b"miniqueue store, format %d\n" % FORMAT_VERSION)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(directory / MARKER_FILE_NAME)
