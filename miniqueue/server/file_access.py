"""Open the files that the operator names: certificates, keys and the users file.

They may be reached through symbolic links, as the files of a Kubernetes Secret are, but must be regular files. A FIFO
would make a start, or a reload, wait until another process writes to it.
"""

import errno
import os
import stat
from pathlib import Path

#: Without O_NONBLOCK, opening a FIFO waits until another process opens its other end.
_SAFE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


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


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file; a FIFO, socket or device cannot be used", str(path))
