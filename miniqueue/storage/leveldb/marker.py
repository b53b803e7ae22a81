r"""The marker file of a store, which contains its format version.

    miniqueue.format      miniqueue store, format 5\n

Formats 1 to 4 can be read, too. Format 1 wrote HEAD with every chunk and counted commits in COMMIT; formats 1 and 2 had
no SETTINGS; formats 1 to 3 had none of the additions of format 4; none of the four has tasks. A store in any of these
formats is also a valid store of format 5, so the upgrade only changes the marker, before anything else is written.

If LevelDB may create missing files, it wipes a store that has lost its CURRENT file. So a database is created only if
there is no marker, and opened only if there is one.
"""

import os
import re
from pathlib import Path

from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage.leveldb.directory_sync import sync_path
from miniqueue.storage.leveldb.own_files import open_file, read_file

MARKER_FILE_NAME = "miniqueue.format"
UNFINISHED_MARKER_NAME = "miniqueue.format.unfinished"
FORMAT_VERSION = 5
_OLDEST_READ = 1

_MARKER = re.compile(rb"miniqueue store, format ([0-9]{1,9})\n")


def check_marker(directory: Path) -> None:
    """Check that this version can read the format of the store in `directory`.

    Raises:
      FormatVersionError: the format is not supported.
      CorruptionError: the marker file has another content.
    """
    if not _OLDEST_READ <= (version := _version(directory)) <= FORMAT_VERSION:
        raise FormatVersionError(str(directory / MARKER_FILE_NAME), version=version, expected=FORMAT_VERSION)


def raise_marker(directory: Path) -> None:
    """Raise the marker of a checked store to the format that this version writes."""
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
    """Write the marker completely or not at all: to a new file, which is synced and then renamed."""
    unfinished = directory / UNFINISHED_MARKER_NAME
    descriptor = open_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(descriptor, b"miniqueue store, format %d\n" % FORMAT_VERSION)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(directory / MARKER_FILE_NAME)
