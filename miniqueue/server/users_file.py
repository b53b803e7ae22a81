"""The users file: read by the broker, written by `miniqueue user` alone.

It must not be writable for others: who can write it can let themselves in. `file_access` says which groups are
none of these. Written whole, with mode 0600 (`private_files`): a broker that reads at that moment sees the old
users or the new ones.
"""

import os
from collections.abc import Callable
from pathlib import Path

from miniqueue.access.users import Users
from miniqueue.access.users_text import parse_users, render_users
from miniqueue.errors import ConfigError
from miniqueue.server.escaping import escape
from miniqueue.server.file_access import Account, acceptance, correction, explained, make_private, open_regular
from miniqueue.server.private_files import FileToWrite, locked, write_files


def read_users(path: Path, report: Callable[[str], None] = lambda _: None, account: Account | None = None) -> Users:
    """Return the users in a file; raises ConfigError with every problem, each with the name of the file.

    Args:
      path: of the file.
      report: is called with a warning if a group of this process could write to the file.
      account: of this process, if None.
    """
    try:
        with open(open_regular(path), encoding="utf-8") as opened:
            _check_access(path, opened.fileno(), report, account or Account.current())
            return parse_users(opened.read())
    except FileNotFoundError as exc:
        raise ConfigError([f"users file {_shown(path)}: it is missing; `miniqueue user add` makes it"]) from exc
    except OSError as exc:
        raise ConfigError([f"users file {_shown(path)}: {explained(exc, path)}"]) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError([f"users file {_shown(path)}: no UTF-8"]) from exc
    except ConfigError as exc:
        raise ConfigError([f"users file {_shown(path)}: {problem}" for problem in exc.problems]) from exc


def _check_access(path: Path, descriptor: int, report: Callable[[str], None], account: Account) -> None:
    if make_private(descriptor, account):
        report(correction(path))
    found = os.fstat(descriptor)
    if account.is_open_to_others(found):
        raise ConfigError(["others may write it; chmod 600 helps"])
    if account.is_open_to_own_group(found):
        report(acceptance(path, found))


def change_users(path: Path, change: Callable[[Users], Users]) -> None:
    """Replace the users in a file, which is made if it is missing; raises ConfigError, then nothing has changed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path.parent):
            before = read_users(path) if path.exists() else Users()
            write_files([FileToWrite(path, render_users(change(before)).encode())])
    except OSError as exc:
        raise ConfigError([f"users file {_shown(path)}: {explained(exc, path)}"]) from exc


def _shown(path: Path) -> str:
    return escape(str(path))
