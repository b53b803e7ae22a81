"""`miniqueue user`: changes the users file, for the broker to read at its start or on SIGHUP.

A secret comes from the terminal or the standard input, or goes into a file that only its owner may read. It is never an
argument, which every user of the machine could see, and never printed.
"""

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from miniqueue.access.hashing import MAX_SECRET_BYTES, hash_password, hash_token, new_token
from miniqueue.access.rights import ROLES
from miniqueue.access.users import User, Users
from miniqueue.access.users_text import check_name, check_pattern
from miniqueue.errors import ConfigError
from miniqueue.server.config import Question
from miniqueue.server.escaping import quote
from miniqueue.server.private_files import FileToWrite, write_files
from miniqueue.server.users_file import change_users, read_users
from miniqueue.tools import arguments
from miniqueue.tools.arguments import Arguments

USAGE = """\
Usage: miniqueue user add [flags] name      adds a user; asks for the password
       miniqueue user passwd [flags] name   gives a user another secret
       miniqueue user remove name           removes a user
       miniqueue user list                  lists users and roles

Changes the file of -users, which a running broker reads again on SIGHUP; it then cuts off
who was removed or changed. A pattern is the name of a topic, or its beginning with * behind
it; several are separated by blanks, as in -publisher 'orders orders.*'.

  -users file
        the users file; also MINIQUEUE_USERS
  -publisher patterns
        may publish to these topics
  -subscriber patterns
        may consume from these topics
  -monitor patterns
        may look; '*' is for what concerns the broker as a whole
  -admin patterns
        may do all that, and delete; '*' also makes backups
  -token-file file
        makes a token and writes it there, mode 0600, instead of asking for a password
  -certificate subject
        of the client certificate that stands for the user, such as CN=ada; then the user
        needs no secret, and is asked for none
  -config file
        TOML file with settings

A password is asked for on the terminal, or is the first line of the standard input.

Exit codes: 0 done; 78 a flag, a name or the file is wrong.
"""
MIN_PASSWORD_BYTES = 8
_OWN = (*ROLES, "token-file", "certificate")


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Carry out one act; return the exit code. Raises MiniqueueError."""
    given = arguments.read(words, environ, settings=("users",), own=_OWN)
    if isinstance(given, Question):
        sys.stdout.write(USAGE)
        return 0
    path = given.config.users
    if path is None:
        raise ConfigError(["user: want -users file; see -h"])
    act, *names = given.words or ("",)
    if act not in _ACTS or len(names) != (act != "list"):
        raise ConfigError(["user: want add, passwd or remove and a name, or list; see -h"])
    _ACTS[act](path, given, *names)
    return 0


def _add(path: Path, given: Arguments, name: str) -> None:
    roles = {role: _patterns(role, given.flags[role]) for role in ROLES if role in given.flags}
    certificate = given.flags.get("certificate", "")
    check_name(name)
    if path.exists():
        _refuse_known(read_users(path), name)  # before a secret is asked for
    secret = "" if certificate and "token-file" not in given.flags else _new_secret(given)

    def change(users: Users) -> Users:
        _refuse_known(users, name)
        return Users([*users, User(name, secret, certificate, roles)])

    change_users(path, change)
    _tell(path, f"{name} added")


def _patterns(role: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(map(check_pattern, text.split()))
    except ConfigError as exc:
        raise ConfigError([f"flag -{role}: {problem}" for problem in exc.problems]) from exc


def _passwd(path: Path, given: Arguments, name: str) -> None:
    _known(read_users(path), name)
    secret = _new_secret(given)

    def change(users: Users) -> Users:
        old = _known(users, name)
        new = User(name, secret, given.flags.get("certificate", old.certificate), old.roles)
        return Users([*(user for user in users if user is not old), new])

    change_users(path, change)
    _tell(path, f"{name} has another secret")


def _remove(path: Path, given: Arguments, name: str) -> None:
    def change(users: Users) -> Users:
        old = _known(users, name)
        return Users(user for user in users if user is not old)

    read_users(path)
    change_users(path, change)
    _tell(path, f"{name} removed")


def _list(path: Path, given: Arguments) -> None:
    for user in read_users(path):
        means = [_kind(user.secret)] if user.secret else []
        means += [f"certificate {user.certificate}"] if user.certificate else []
        roles = [f"{role} {' '.join(patterns)}" for role, patterns in user.roles.items()]
        print(f"{user.name}: {'; '.join([*(means or ['no secret']), *(roles or ['no role'])])}")


_ACTS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {"add": _add, "passwd": _passwd, "remove": _remove, "list": _list}
)


def _kind(secret: str) -> str:
    return "token" if secret.startswith("sha256:") else "password"


def _refuse_known(users: Users, name: str) -> None:
    if users.named(name) is not None:
        raise ConfigError([f"user {name!a}: there is one already; `miniqueue user passwd` gives another secret"])


def _known(users: Users, name: str) -> User:
    user = users.named(name)
    if user is None:
        raise ConfigError([f"user {name[:64]!a}: there is none of that name"])
    return user


def _tell(path: Path, what: str) -> None:
    print(f"{path}: {what}; a running broker reads it on SIGHUP")


def _new_secret(given: Arguments) -> str:
    """Return what is kept of a new token, which is in its file then, or of a password that was asked for."""
    file = given.flags.get("token-file")
    if file is None:
        return hash_password(_ask_for_password())
    token = new_token().encode()
    path = arguments.file_to_make("token-file", file)
    try:
        write_files([FileToWrite(path, token + b"\n")])
    except OSError as exc:
        raise ConfigError([f"flag -token-file: {quote(file)}: {exc.strerror}"]) from exc
    return hash_token(token)


def _ask_for_password() -> bytes:
    if not sys.stdin.isatty():
        return _checked(sys.stdin.buffer.readline().rstrip(b"\r\n"))
    password = _checked(getpass.getpass("password: ").encode())
    if getpass.getpass("once more: ").encode() != password:
        raise ConfigError(["the passwords differ"])
    return password


def _checked(password: bytes) -> bytes:
    if not MIN_PASSWORD_BYTES <= len(password) <= MAX_SECRET_BYTES:
        raise ConfigError([f"a password has {MIN_PASSWORD_BYTES} to {MAX_SECRET_BYTES} bytes"])
    return password
