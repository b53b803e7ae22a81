"""Whom the ports are open to: a start that would let strangers in is refused.

    -host is loopback                 only this machine gets in: fine
    elsewhere, -users                 users get in: fine, with a warning unless RESP has TLS
    elsewhere                         refused (78), with the flags that help
    elsewhere, -insecure              fine, with a warning at every start

The directory of the store likewise:

    others may write to it            refused (78), as they could put another store there; -insecure makes it a warning
    others may enter it               fine, with a warning

Knows the configuration and no network: a name other than `localhost` may lead anywhere and counts as elsewhere.
"""

import os
import stat
from ipaddress import ip_address

from miniqueue.errors import ConfigError, StorageError
from miniqueue.server.config import Config
from miniqueue.server.escaping import escape
from miniqueue.server.file_access import OTHER_USER_OR_MODE

_IN_THE_CLEAR = "secrets and messages cross the network in the clear on the RESP port; -resp-tls encrypts them"


def check_exposure(config: Config) -> str:
    """Return what the operator is to be warned of at this start, or nothing.

    Raises ConfigError when everybody on the network could use the broker and nobody has said that they may.
    """
    if is_loopback(config.host):
        return ""
    if config.users is not None:
        return "" if config.resp_tls else _IN_THE_CLEAR
    if config.insecure:
        return f"everybody who reaches {config.host} may read, publish and delete everything (-insecure)"
    raise ConfigError(
        [
            f"flag -host: {config.host} can be reached from other machines, and there are no users: "
            "everybody could read, publish and delete; keep -host 127.0.0.1, or make users with "
            "`miniqueue user add` and name their file with -users, or accept it with -insecure"
        ]
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


def check_directory(config: Config) -> str:
    """Return what the operator is to be warned of if others may enter the directory of the store, or nothing.

    Raises ConfigError when they may also write to it, unless the operator insists.
    """
    try:
        mode = config.db.stat().st_mode
    except OSError:
        return ""  # it is still to be made, for its owner only
    if config.storage == "memory" or not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return ""
    may_write = mode & (stat.S_IWGRP | stat.S_IWOTH)
    problem = (
        f"others may {'write to' if may_write else 'enter'} {escape(str(config.db))} "
        f"(mode {stat.S_IMODE(mode):o}); chmod 700 keeps them out"
    )
    if may_write and not config.insecure:
        raise ConfigError([f"flag -db: {problem}; -insecure accepts it"])
    return problem


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches a listener on `host`, an address or a name."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
