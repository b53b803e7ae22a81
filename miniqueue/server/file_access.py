"""Open the files that the operator names: certificates, keys and the users file; explain why one cannot be used.

They may be reached through symbolic links, as the files of a Kubernetes Secret are, but must be regular files. A FIFO
would make a start, or a reload, wait until another process writes to it.
"""

import errno
import os
import stat
from pathlib import Path

#: Without O_NONBLOCK, opening a FIFO waits until another process opens its other end.
_SAFE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: What helps if a file or directory is not for the user that runs the broker.
OTHER_USER_OR_MODE = "start as a user that may use it (in a container: --user), or change its owner or mode"


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without waiting; return its descriptor. Raises OSError."""
    try:
        descriptor = os.open(path, _SAFE)
    except OSError as exc:
        if exc.errno in (errno.ENXIO, errno.ENODEV):  # a socket, or a device without a driver
            raise _not_regular(path) from exc
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _not_regular(path)


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file; raises OSError as `open_regular` does."""
    with open(open_regular(path), "rb") as opened:
        return opened.read()


def explained(error: OSError, path: Path) -> str:
    """Return why a file cannot be used; for lack of permission, with the user that tried and the remedy."""
    if not isinstance(error, PermissionError):
        return error.strerror or str(error)
    return f"permission denied for uid {os.geteuid()}{_owner(path)}; {OTHER_USER_OR_MODE}"


def _owner(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return ""  # in a directory that this user cannot enter
    return f"; it belongs to uid {found.st_uid} (mode {stat.S_IMODE(found.st_mode):o})"


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file; a FIFO, socket or device cannot be used", str(path))
