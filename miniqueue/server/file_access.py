"""Open the files that the operator names: certificates, keys and the users file; check who may write to them.

They may be reached through symbolic links, as the files of a Kubernetes Secret are, but must be regular files. A FIFO
would make a start, or a reload, wait until another process writes to it.

A volume with `fsGroup` gives a group of the process write access to all files at each mount. So access of a group
to which the process belongs is withdrawn if the file belongs to the process, and accepted otherwise:

    owner           may write, too            then
    this user       a group of the process    the mode is corrected, with a warning
    another user    a group of the process    accepted, with a warning
    any             another group, or all     refused
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from miniqueue.server.escaping import escape

#: Without O_NONBLOCK, opening a FIFO waits until another process opens its other end.
_SAFE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO

#: What helps if a file or directory is not for the user that runs the broker.
OTHER_USER_OR_MODE = "start as a user that may use it (in a container: --user), or change its owner or mode"


@dataclass(frozen=True, slots=True)
class Account:
    """The user and the groups of a process."""

    uid: int
    gids: frozenset[int]

    @classmethod
    def current(cls) -> "Account":
        """Return those of this process."""
        return cls(os.geteuid(), frozenset((os.getegid(), *os.getgroups())))

    def is_open_to_others(self, found: os.stat_result) -> bool:
        """Tell whether everybody, or a group to which the process does not belong, may write to a file."""
        is_of_other_group = found.st_gid not in self.gids
        return bool(found.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if is_of_other_group else 0)))

    def is_open_to_own_group(self, found: os.stat_result) -> bool:
        """Tell whether a group to which the process belongs may write to a file."""
        return bool(found.st_mode & stat.S_IWGRP) and found.st_gid in self.gids


def make_private(descriptor: int, account: Account) -> bool:
    """Withdraw the access that a mount has given to a group of the process; return whether there was any.

    Nothing is changed if the file belongs to another user, is open to others as well, or cannot be changed.
    """
    found = os.fstat(descriptor)
    if found.st_uid != account.uid or not account.is_open_to_own_group(found) or account.is_open_to_others(found):
        return False
    try:
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~_GROUP_AND_OTHERS)
    except OSError:
        return False
    return not os.fstat(descriptor).st_mode & _GROUP_AND_OTHERS  # some file systems ignore the change


def correction(path: Path) -> str:
    """Return what the log says about a file whose mode was corrected."""
    return f"{escape(str(path))}: its group could write to it; the mode was corrected, only its owner may use it now"


def acceptance(path: Path, found: os.stat_result) -> str:
    """Return what the log says about a file that belongs to another user and to a group of this process."""
    return (
        f"others in group {found.st_gid} may write to {escape(str(path))} (mode {stat.S_IMODE(found.st_mode):o}); "
        "it is accepted because the broker is in this group, too"
    )


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
