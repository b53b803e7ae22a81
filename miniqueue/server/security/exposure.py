"""Checks at startup who can reach the ports and the store; a startup that would let strangers in is rejected.

The ports, by the addresses of -host and -monitor-host:

    loopback                 only this machine can connect: accepted
    other, with users        only users can do anything: accepted, with a warning unless RESP uses TLS
    other, without users     rejected (exit code 78), with the flags that help
    other, with -insecure    accepted, with a warning at every startup; the dashboard still requires users

The directory of the store:

    other users can write to it      rejected (78): they could replace the store; -insecure makes it a warning
    a group of this process can      its mode is corrected; a warning if that is impossible (`file_access`)
    another user owns files in it    rejected (78), even for root, unless a group of this process can write to it
    other users can enter it         accepted, with a warning

Knows the configuration but no network: a name other than `localhost` can resolve to any address, so it is not loopback.
"""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from itertools import islice
from pathlib import Path

from miniqueue.errors import ConfigError, StorageError
from miniqueue.server.config.config import Config
from miniqueue.server.config.setting import PASSWORD_VARIABLE
from miniqueue.server.process.escaping import escape
from miniqueue.server.security.file_access import OTHER_USER_OR_MODE, Account, acceptance, correction, make_private

#: What every client could do without users, by the flag that opens a port.
_OPEN_TO_ALL = {"-host": "read, publish and delete everything", "-monitor-host": "read all messages and metrics"}
_IN_THE_CLEAR = "secrets and messages cross the network in the clear on the RESP port; -resp-tls encrypts them"


def check_exposure(config: Config) -> str:
    """Return a warning for this startup, or nothing.

    Raises ConfigError if every client on the network could use the broker and the operator has not accepted that.
    """
    hosts = {"-host": config.host, "-monitor-host": config.monitor_host}
    exposed = {flag: host for flag, host in hosts.items() if not is_loopback(host)}
    if config.dashboard and "-monitor-host" in exposed and not config.has_users:
        raise ConfigError(
            [
                f"flag -dashboard: requires users, because {config.monitor_host} (-monitor-host) can be reached from "
                "other machines; create users with `miniqueue user add` and set -users, or remove one of the flags"
            ]
        )
    if config.has_users:
        return _IN_THE_CLEAR if "-host" in exposed and not config.resp_tls else ""
    if exposed and not config.insecure:
        raise ConfigError(
            [
                f"flag {flag}: {host} can be reached from other machines, and there are no users, so every client "
                f"could {_OPEN_TO_ALL[flag]}; use {flag} 127.0.0.1, or set the variable {PASSWORD_VARIABLE}, or create "
                "users with `miniqueue user add` and set -users, or accept it with -insecure"
                for flag, host in exposed.items()
            ]
        )
    return "; ".join(
        f"every client that can reach {host} may {_OPEN_TO_ALL[flag]} (-insecure)" for flag, host in exposed.items()
    )


def serves_dashboard(config: Config) -> bool:
    """Return whether the dashboard is on: as its setting says, else if only this machine can reach it."""
    return is_loopback(config.monitor_host) if config.dashboard is None else config.dashboard


def check_writable(config: Config) -> None:
    """Raise StorageError if this user can neither write to the directory of the store nor create it.

    On an empty volume of another user, everything fails. This check runs before the certificates are created, so
    that the error is about the volume.
    """
    if config.storage == "memory":
        return
    path = config.db.absolute()
    existing = next(directory for directory in (path, *path.parents) if os.path.exists(directory))
    if os.access(existing, os.W_OK | os.X_OK) or os.statvfs(existing).f_flag & os.ST_RDONLY:
        return  # opening the store has its own error for a read-only file system
    status = existing.stat()
    raise StorageError(
        f"flag -db: {escape(str(config.db))} cannot be written by uid {os.geteuid()}: {escape(str(existing))} "
        f"belongs to uid {status.st_uid} (mode {stat.S_IMODE(status.st_mode):o}); {OTHER_USER_OR_MODE}"
    )


def correct_modes(config: Config, *, is_store: bool, account: Account | None = None) -> str:
    """Withdraw the write access that a mount gave to a group of this process; return a warning, or nothing.

    Args:
      config: the configuration; with `-insecure`, nothing is changed.
      is_store: whether the directory is already a store; otherwise it is changed only if it is empty.
      account: the account to check against; None: that of this process.
    """
    account = account or Account.current()
    if config.insecure or config.storage == "memory":
        return ""
    directory = Path(os.path.realpath(config.db))
    entries = list(_entries(directory))
    if not is_store and len(entries) > 1:
        return ""  # -db is probably a mistake: these are files of another program
    if (
        not entries
        or account.is_open_to_others(entries[0][1])
        or any(status.st_uid != account.uid for _, status in entries)
    ):
        return ""
    corrected = [_make_private(path, status, account) for path, status in entries]
    return correction(config.db) if any(corrected) else ""


#: Directory that mkfs creates at the root of an ext4 volume; it belongs to root.
_LOST_AND_FOUND = "lost+found"


def _entries(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the directory and everything readable in it, without following links; nothing if it does not exist."""
    paths = [directory]
    for parent, directories, files in os.walk(directory):
        if _LOST_AND_FOUND in directories:
            directories.remove(_LOST_AND_FOUND)
        paths += (Path(parent, name) for name in (*directories, *files))
    for path in paths:
        with suppress(OSError):  # a running broker may have removed it meanwhile
            yield path, path.lstat()


def _make_private(path: Path, status: os.stat_result, account: Account) -> bool:
    if not account.is_open_to_own_group(status) or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return make_private(descriptor, account)
    finally:
        os.close(descriptor)


def check_directory(config: Config, account: Account | None = None, *, is_store: bool = False) -> str:
    """Return a warning if other users can access the directory of the store, or nothing.

    Args:
      config: the configuration; `-insecure` turns errors into warnings.
      account: the account to check against; None: that of this process.
      is_store: whether the directory is already a store; then everything in it must belong to this user.

    Raises ConfigError if other users can also write to it, or own something in it.
    """
    account = account or Account.current()
    try:
        status = config.db.stat()
    except OSError:
        return ""  # it will be created with access for its owner only
    if config.storage == "memory":
        return ""
    directory, remedy = escape(str(config.db)), f"(mode {stat.S_IMODE(status.st_mode):o}); run chmod 700"
    if account.is_open_to_others(status):
        return _warning(config, f"{directory} is writable by other users {remedy}")
    if account.is_open_to_own_group(status):
        return acceptance(config.db, status)
    if problem := _foreign_owner(config.db, account, is_store=is_store):
        return _warning(config, problem)
    is_accessible = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return f"{directory} is accessible to other users {remedy}" if is_accessible else ""


def _warning(config: Config, problem: str) -> str:
    """Return a problem as a warning with `-insecure`; otherwise raise it as a ConfigError."""
    if not config.insecure:
        raise ConfigError([f"flag -db: {problem}, or accept it with -insecure"])
    return problem


def _foreign_owner(directory: Path, account: Account, *, is_store: bool) -> str:
    """Return a problem if the directory, or something in a store, belongs to another user; or nothing."""
    entries = islice(_entries(Path(os.path.realpath(directory))), None if is_store else 1)
    foreign = [(path, status.st_uid) for path, status in entries if status.st_uid != account.uid]
    if not foreign:
        return ""
    own_uid = _owner_of_new_files(directory)
    problems = (
        f"{escape(str(path))} belongs to uid {uid}, which can change it at any time, but the broker runs as uid "
        f"{account.uid}; start as uid {uid} (in a container: --user), run chown -R {account.uid}"
        for path, uid in foreign
        if uid != own_uid
    )
    return next(problems, "")


def _owner_of_new_files(directory: Path) -> int | None:
    """Return the owner of files that this process creates: network file systems can map all users to one."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            return os.fstat(probe.fileno()).st_uid
    except OSError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on `host`, an address or a name."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
