"""Whom the ports are open to: a start that would let strangers in is refused.

    -host, -monitor-host are loopback only this machine gets in: fine
    elsewhere, -users                 users get in: fine, with a warning unless RESP has TLS
    elsewhere                         refused (78), with the flags that help
    elsewhere, -insecure              fine, with a warning at every start

The directory of the store likewise:

    others may write to it            refused (78), as they could put another store there; -insecure makes it a warning
    a group of this process may       its mode is corrected; a warning if that cannot be done (`file_access`)
    another user has files in it      refused (78) as well, for root too, unless a group of this process may write to it
    others may enter it               fine, with a warning

Knows the configuration and no network: a name other than `localhost` may lead anywhere and counts as elsewhere.
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
from miniqueue.server.config import Config
from miniqueue.server.escaping import escape
from miniqueue.server.file_access import OTHER_USER_OR_MODE, Account, acceptance, correction, make_private

#: What everybody could do without users, by the flag that opens a port.
_OPEN_TO_ALL = {"-host": "read, publish and delete everything", "-monitor-host": "read all messages and metrics"}
_IN_THE_CLEAR = "secrets and messages cross the network in the clear on the RESP port; -resp-tls encrypts them"


def check_exposure(config: Config) -> str:
    """Return what the operator is to be warned of at this start, or nothing.

    Raises ConfigError when everybody on the network could use the broker and nobody has said that they may.
    """
    hosts = {"-host": config.host, "-monitor-host": config.monitor_host}
    exposed = {flag: host for flag, host in hosts.items() if not is_loopback(host)}
    if config.users is not None:
        return _IN_THE_CLEAR if "-host" in exposed and not config.resp_tls else ""
    if exposed and not config.insecure:
        raise ConfigError(
            [
                f"flag {flag}: {host} can be reached from other machines, and there are no users: "
                f"everybody could {_OPEN_TO_ALL[flag]}; keep {flag} 127.0.0.1, or make users with "
                "`miniqueue user add` and name their file with -users, or accept it with -insecure"
                for flag, host in exposed.items()
            ]
        )
    return "; ".join(
        f"everybody who reaches {host} may {_OPEN_TO_ALL[flag]} (-insecure)" for flag, host in exposed.items()
    )


def check_writable(config: Config) -> None:
    """Raise StorageError if this user can neither write to the directory of the store nor make it.

    On an empty volume of another user everything fails. This check comes before the certificates, so that the error
    is about the volume.
    """
    if config.storage == "memory":
        return
    path = config.db.absolute()
    existing = next(directory for directory in (path, *path.parents) if os.path.exists(directory))
    if os.access(existing, os.W_OK | os.X_OK) or os.statvfs(existing).f_flag & os.ST_RDONLY:
        return  # opening the store has its own error for a file system that is read-only
    found = existing.stat()
    raise StorageError(
        f"flag -db: {escape(str(config.db))} cannot be written by uid {os.geteuid()}: {escape(str(existing))} "
        f"belongs to uid {found.st_uid} (mode {stat.S_IMODE(found.st_mode):o}); {OTHER_USER_OR_MODE}"
    )


def correct_modes(config: Config, *, is_store: bool, account: Account | None = None) -> str:
    """Withdraw the write access that a mount has given to a group of this process; return a warning, or nothing.

    Args:
      config: nothing is changed with `-insecure`.
      is_store: whether the directory is a store already; otherwise it is changed only if it is empty.
      account: of this process, if None.
    """
    account = account or Account.current()
    if config.insecure or config.storage == "memory":
        return ""
    directory = Path(os.path.realpath(config.db))
    entries = list(_entries(directory))
    if not is_store and len(entries) > 1:
        return ""  # a mistake in -db: these are other programs' files
    if not entries or account.is_open_to_others(entries[0][1]) or any(f.st_uid != account.uid for _, f in entries):
        return ""
    corrected = [_make_private(path, found, account) for path, found in entries]
    return correction(config.db) if any(corrected) else ""


#: What mkfs makes at the root of an ext4 volume, for its own use; it belongs to root.
_LOST_AND_FOUND = "lost+found"


def _entries(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the directory and everything in it that can be seen, without following links; nothing if it is missing."""
    paths = [directory]
    for parent, directories, files in os.walk(directory):
        if _LOST_AND_FOUND in directories:
            directories.remove(_LOST_AND_FOUND)
        paths += (Path(parent, name) for name in (*directories, *files))
    for path in paths:
        with suppress(OSError):  # a running broker has removed it
            yield path, path.lstat()


def _make_private(path: Path, found: os.stat_result, account: Account) -> bool:
    if not account.is_open_to_own_group(found) or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
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
    """Return what the operator is to be warned of if others may enter the directory of the store, or nothing.

    Args:
      config: `-insecure` makes a refusal a warning.
      account: of this process, if None.
      is_store: whether the directory is a store already; then everything in it must belong to this user.

    Raises ConfigError when they may also write to it, or own something in it, unless the operator insists.
    """
    account = account or Account.current()
    try:
        found = config.db.stat()
    except OSError:
        return ""  # it is still to be made, for its owner only
    if config.storage == "memory":
        return ""
    place = f"{escape(str(config.db))} (mode {stat.S_IMODE(found.st_mode):o}); chmod 700 keeps them out"
    if account.is_open_to_others(found):
        return _insisted(config, f"others may write to {place}")
    if account.is_open_to_own_group(found):
        return acceptance(config.db, found)
    if problem := _foreign_owner(config.db, account, is_store=is_store):
        return _insisted(config, problem)
    return f"others may enter {place}" if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) else ""


def _insisted(config: Config, problem: str) -> str:
    if not config.insecure:
        raise ConfigError([f"flag -db: {problem}; -insecure accepts it"])
    return problem


def _foreign_owner(directory: Path, account: Account, *, is_store: bool) -> str:
    """Return a problem if the directory, or something in a store, belongs to another user; or nothing."""
    entries = islice(_entries(Path(os.path.realpath(directory))), None if is_store else 1)
    foreign = [(path, found.st_uid) for path, found in entries if found.st_uid != account.uid]
    if not foreign:
        return ""
    own_uid = _owner_of_new_files(directory)
    problems = (
        f"{escape(str(path))} belongs to uid {uid}, which may change it at any time, and the broker is uid "
        f"{account.uid}; start as uid {uid} (in a container: --user), or chown -R everything to {account.uid}"
        for path, uid in foreign
        if uid != own_uid
    )
    return next(problems, "")


def _owner_of_new_files(directory: Path) -> int | None:
    """Return which user this process is in a directory: network file systems may map all users to one."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            return os.fstat(probe.fileno()).st_uid
    except OSError:
        return None


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a listener on `host`, an address or a name."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
