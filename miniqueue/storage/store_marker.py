r"""The file that says "this directory is a miniqueue store" and in which format.

    miniqueue.format      miniqueue store, format 1\n

LevelDB asked to create what is missing wipes a store that has lost its CURRENT file. So a database is created
only where no marker is, and opened only where one is.
"""

import os
import re
from pathlib import Path

from miniqueue.errors import CorruptionError, FormatVersionError

MARKER_FILE_NAME = "miniqueue.format"
UNFINISHED_MARKER_NAME = "miniqueue.format.unfinished"
FORMAT_VERSION = 1

_MARKER = re.compile(rb"miniqueue store, format ([0-9]{1,9})\n")


def check_marker(directory: Path) -> None:
    """Make sure that the store in `directory` is in the format that this version reads and writes.

    Raises:
      FormatVersionError: it is in another one.
      CorruptionError: the marker file says something else.
    """
    path = directory / MARKER_FILE_NAME
    match = _MARKER.fullmatch(path.read_bytes())
    if match is None:
        raise CorruptionError(f"{path}: not a miniqueue marker")
    if int(match[1]) != FORMAT_VERSION:
        raise FormatVersionError(str(path), found=int(match[1]), expected=FORMAT_VERSION)


def write_marker(directory: Path) -> None:
    """Write the marker whole or not at all: a new file, synced, then given its name."""
    unfinished = directory / UNFINISHED_MARKER_NAME
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"miniqueue store, format %d\n" % FORMAT_VERSION)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(directory / MARKER_FILE_NAME)
