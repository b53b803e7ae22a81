"""The users file, which the broker reads and only `miniqueue user` writes.

Other users must not be able to write it, because they could add themselves. Write access of a group of the process is
accepted only if the process owns the file and its mode cannot be corrected (`file_access`). A group can have read
access to a file of another user: the files of a Kubernetes Secret with `fsGroup` belong to root, with mode 0440.

The file is written as a whole, with mode 0600 (`private_files`): a broker that reads it meanwhile sees the old users or
the new ones.
"""

from collections.abc import Callable
from pathlib import Path

from miniqueue.access.users import Users
from miniqueue.access.users_text import parse_users, render_users
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import escape
from miniqueue.server.security.file_access import Account, explained, read_protected
from miniqueue.server.security.private_files import FileToWrite, locked, write_files


def read_users(path: Path, report: Callable[[str], None] = lambda _: None, account: Account | None = None) -> Users:
    """Return the users in a file; raises ConfigError with every problem, each with the name of the file.

    Args:
      path: path of the file.
      report: called with a warning if this process owns the file and one of its groups can or could write to it.
      account: the account to check against; None: that of this process.
    """
    try:
        return parse_users(read_protected(path, report, account))
    except FileNotFoundError as exc:
        raise ConfigError(
            [f"flag -users: users file {_shown(path)}: it is missing; create it with `miniqueue user add`"]
        ) from exc
    except ConfigError as exc:
        raise ConfigError([f"flag -users: users file {_shown(path)}: {problem}" for problem in exc.problems]) from exc


def change_users(path: Path, change: Callable[[Users], Users]) -> None:
    """Replace the users in a file, or create it; if it raises ConfigError, nothing has changed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path.parent):
            before = read_users(path) if path.exists() else Users()
            write_files([FileToWrite(path, render_users(change(before)).encode())])
    except OSError as exc:
        raise ConfigError([f"flag -users: users file {_shown(path)}: {explained(exc, path)}"]) from exc


def _shown(path: Path) -> str:
    return escape(str(path))
