"""Opening files that the operator names: certificates, keys, users, a password; checking who can write to them.

They can be reached through symbolic links, as the files of a Kubernetes Secret are, but must be regular files: a FIFO
would block a startup, or a reload, until another process writes to it.

A volume with `fsGroup` gives a group of the process write access to all files, at each mount. So if a group to which
the process belongs can write to a file, that access is withdrawn if the process owns the file, and else accepted:

    owner           can also write            result
    this user       a group of the process    the mode is corrected, with a warning
    another user    a group of the process    accepted, with a warning; users and a password are rejected
    any             another group, or all     rejected
"""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape

#: Flags of `open`; without O_NONBLOCK, opening a FIFO blocks until another process opens its other end.
_SAFE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO

#: The remedy if the user that runs the broker has no access to a file or directory.
OTHER_USER_OR_MODE = "start as a user that may use it (in a container: --user), or change its owner or mode"


@dataclass(frozen=True, slots=True)
class Account:
    """The user and the groups of a process."""

    uid: int
    gids: frozenset[int]

    @classmethod
    def current(cls) -> "Account":
        """Return the account of this process."""
        return cls(os.geteuid(), frozenset((os.getegid(), *os.getgroups())))

    def is_open_to_others(self, status: os.stat_result) -> bool:
        """Whether all users, or a group to which the process does not belong, can write to a file."""
        is_of_other_group = status.st_gid not in self.gids
        return bool(status.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if is_of_other_group else 0)))

    def is_open_to_own_group(self, status: os.stat_result) -> bool:
        """Whether a group to which the process belongs can write to a file."""
        return bool(status.st_mode & stat.S_IWGRP) and status.st_gid in self.gids


def make_private(descriptor: int, account: Account) -> bool:
    """Withdraw the access that a mount gave to a group of the process; return whether it was withdrawn.

    Nothing is changed if the file belongs to another user, is open to others as well, or cannot be changed.
    """
    status = os.fstat(descriptor)
    if status.st_uid != account.uid or not account.is_open_to_own_group(status) or account.is_open_to_others(status):
        return False
    try:
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_GROUP_AND_OTHERS)
    except OSError:
        return False
    return not os.fstat(descriptor).st_mode & _GROUP_AND_OTHERS  # some file systems ignore the change


def correction(path: Path) -> str:
    """Return the warning about a file whose mode was corrected."""
    return f"{escape(str(path))}: its group could write to it; the mode was corrected, only its owner has access now"


def acceptance(path: Path, status: os.stat_result) -> str:
    """Return the warning about a file to which a group of this process can still write."""
    return (
        f"others in group {status.st_gid} can write to {escape(str(path))} (mode {stat.S_IMODE(status.st_mode):o}); "
        "accepted because the broker is in this group, too"
    )


def open_regular(path: Path) -> int:
    """Open a regular file for reading, without blocking; return its descriptor; raises OSError."""
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
    """Return the content of a regular file; raises OSError."""
    with open(open_regular(path), "rb") as opened:
        return opened.read()


def read_protected(path: Path, report: Callable[[str], None], account: Account | None = None) -> str:
    """Return the text of a file that decides who may use the broker: its users, or a password.

    Args:
      path: path of the file.
      report: called with a warning if this process owns the file and one of its groups can or could write to it.
      account: the account to check against; None: that of this process.

    Raises:
      FileNotFoundError: the file is missing.
      ConfigError: it cannot be read, is not UTF-8, or another user can write to it.
    """
    try:
        with open(open_regular(path), encoding="utf-8") as opened:
            _check_protection(path, opened.fileno(), report, account or Account.current())
            return opened.read()
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise ConfigError([explained(exc, path)]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(["it is not UTF-8"]) from exc


def _check_protection(path: Path, descriptor: int, report: Callable[[str], None], account: Account) -> None:
    if make_private(descriptor, account):
        report(correction(path))
    status = os.fstat(descriptor)
    if account.is_open_to_others(status):
        raise ConfigError(["it is writable by other users; run chmod 600"])
    if not account.is_open_to_own_group(status):
        return
    if status.st_uid != account.uid:
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigError(
            [
                f"it is writable by group {status.st_gid} (mode {mode:o}), and it belongs to uid {status.st_uid}; "
                f"run chmod g-w or chown {account.uid}"
            ]
        )
    report(acceptance(path, status))


def explained(error: OSError, path: Path) -> str:
    """Return why a file cannot be used; without permission, with the uid of this process and the remedy."""
    if not isinstance(error, PermissionError):
        return error.strerror or str(error)
    return f"permission denied for uid {os.geteuid()}{_owner(path)}; {OTHER_USER_OR_MODE}"


def _owner(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""  # it is in a directory that this user cannot enter
    return f"; it belongs to uid {status.st_uid} (mode {stat.S_IMODE(status.st_mode):o})"


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is not a regular file; a FIFO, socket, or device cannot be used", str(path))
