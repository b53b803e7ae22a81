"""`miniqueue user`: changes the users file, which the broker reads at startup and after each change.

A secret comes from the terminal or the standard input, or is written to a file that only its owner can read. It is
never an argument, which every user of the machine could see, and never printed.
"""

import getpass
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from miniqueue.access.hashing import check_password, hash_password, hash_token, new_token
from miniqueue.access.rights import ROLES
from miniqueue.access.users import User, Users
from miniqueue.access.users_text import check_name, check_pattern
from miniqueue.core.settings import quotas
from miniqueue.core.settings.quotas import Quotas
from miniqueue.errors import ConfigError
from miniqueue.server.process.escaping import quote
from miniqueue.server.security.private_files import FileToWrite, write_files
from miniqueue.server.security.users_file import change_users, read_users
from miniqueue.tools import arguments
from miniqueue.tools.arguments import Arguments

USAGE = """\
Usage: miniqueue user add [flags] name      adds a user; asks for the password
       miniqueue user passwd [flags] name   changes the secret of a user
       miniqueue user remove name           removes a user
       miniqueue user list                  lists users, roles, and quotas
       miniqueue user quota [flags] name    shows the quotas of a user, or changes them

Changes the file of -users, which a running broker reads again within 30 s, or on SIGHUP; it
then disconnects users that were removed or changed, except in their quotas. A pattern is the
name of a topic, or a prefix followed by *; several patterns are separated by blanks, as in
-publisher 'orders orders.*'.

  -users file
        the users file; also MINIQUEUE_USERS
  -publisher patterns
        may publish to these topics
  -subscriber patterns
        may consume from these topics
  -monitor patterns
        may inspect these topics; '*' also permits inspecting the broker as a whole
  -admin patterns
        may do all of that, and delete; '*' also permits backups
  -token-file file
        creates a token in this file, mode 0600, instead of asking for a password
  -certificate subject
        subject of the client certificate that authenticates the user, such as CN=ada; the
        user then needs no secret
  -max-topics, -max-bytes, -max-messages-per-second, -max-connections, -max-memory-bytes number
        quotas, with the action quota: what the user may have; none removes a quota, and the
        user may have as much as any
  -config file
        TOML, JSON, or YAML file with settings

The password is read from the terminal, or is the first line of the standard input.

Exit codes: 0 done; 78 a flag, a name, or the file is invalid.
"""
#: The flag of each quota.
_QUOTA_FLAGS: Mapping[str, str] = MappingProxyType({name.replace("_", "-"): name for name in quotas.FIELDS})
_OWN = (*ROLES, "token-file", "certificate", *_QUOTA_FLAGS)


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Carry out one action; return the exit code. Raises MiniqueueError."""
    options = arguments.read(words, environ, USAGE, settings=("users",), own=_OWN)
    if options is None:
        return 0
    path = options.config.users
    if path is None:
        raise ConfigError(["user: -users is missing; see -h"])
    action, *names = options.words or ("",)
    if action not in _ACTIONS or len(names) != (action != "list"):
        raise ConfigError(
            ["user: invalid arguments; must be add, passwd, remove, or quota and a name, or list; see -h"]
        )
    if action != "quota" and (misplaced := options.flags.keys() & _QUOTA_FLAGS.keys()):
        raise ConfigError([f"flag -{flag}: only for the action quota; see -h" for flag in sorted(misplaced)])
    _ACTIONS[action](path, options, *names)
    return 0


def _add(path: Path, options: Arguments, name: str) -> None:
    roles = {role: _patterns(role, options.flags[role]) for role in ROLES if role in options.flags}
    certificate = options.flags.get("certificate", "")
    check_name(name)
    if path.exists():
        _refuse_existing(read_users(path), name)  # before the tool asks for a secret
    secret = "" if certificate and "token-file" not in options.flags else _new_secret(options)

    def change(users: Users) -> Users:
        _refuse_existing(users, name)
        return Users([*users, User(name, secret, certificate, roles)], users.quotas)

    change_users(path, change)
    _report(path, f"{name} added")


def _patterns(role: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(map(check_pattern, text.split()))
    except ConfigError as exc:
        raise ConfigError([f"flag -{role}: {problem}" for problem in exc.problems]) from exc


def _passwd(path: Path, options: Arguments, name: str) -> None:
    _existing(read_users(path), name)
    secret = _new_secret(options)

    def change(users: Users) -> Users:
        old = _existing(users, name)
        new = User(name, secret, options.flags.get("certificate", old.certificate), old.roles)
        return Users([*(user for user in users if user is not old), new], users.quotas)

    change_users(path, change)
    _report(path, f"{name} has a new secret")


def _remove(path: Path, options: Arguments, name: str) -> None:
    def change(users: Users) -> Users:
        old = _existing(users, name)
        return Users((user for user in users if user is not old), users.quotas)

    read_users(path)
    change_users(path, change)
    _report(path, f"{name} removed")


def _quota(path: Path, options: Arguments, name: str) -> None:
    changes = {_QUOTA_FLAGS[flag]: _parsed(flag, options.flags[flag]) for flag in _QUOTA_FLAGS if flag in options.flags}
    users = read_users(path)
    _existing(users, name)
    if not changes:
        print(f"{name}: {_shown(users.quotas[name])}")
        return

    def change(users: Users) -> Users:
        _existing(users, name)
        return Users(users, {**users.quotas, name: users.quotas[name]._replace(**changes)})

    change_users(path, change)
    _report(path, f"{name} has other quotas")


def _parsed(flag: str, text: str) -> int | None:
    row = quotas.FIELDS[_QUOTA_FLAGS[flag]]
    if text == "none":
        return None
    try:
        return int(str(row.check(row.parse(text))))
    except ValueError as exc:
        raise ConfigError([f"flag -{flag}: invalid quota; must be {row.allowed}, or none"]) from exc


def _shown(of_user: Quotas) -> str:
    return " ".join(f"{name} {value}" for name, value in of_user.members().items()) or "no quotas"


def _list(path: Path, options: Arguments) -> None:
    users = read_users(path)
    for user in users:
        credentials = [_kind(user.secret)] if user.secret else []
        credentials += [f"certificate {user.certificate}"] if user.certificate else []
        roles = [f"{role} {' '.join(patterns)}" for role, patterns in user.roles.items()]
        limits = [_shown(users.quotas[user.name])] if users.quotas[user.name].members() else []
        print(f"{user.name}: {'; '.join([*(credentials or ['no secret']), *(roles or ['no role']), *limits])}")


_ACTIONS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {"add": _add, "passwd": _passwd, "remove": _remove, "list": _list, "quota": _quota}
)


def _kind(secret: str) -> str:
    return "token" if secret.startswith("sha256:") else "password"


def _refuse_existing(users: Users, name: str) -> None:
    if users.named(name) is not None:
        raise ConfigError([f"user {name!a}: exists already; `miniqueue user passwd` changes the secret"])


def _existing(users: Users, name: str) -> User:
    user = users.named(name)
    if user is None:
        raise ConfigError([f"user {name[:64]!a}: does not exist; `miniqueue user list` lists users"])
    return user


def _report(path: Path, change: str) -> None:
    print(f"{path}: {change}; a running broker reads it within 30 s")


def _new_secret(options: Arguments) -> str:
    """Write a new token to its file, or ask for a password; return the hash that the users file contains."""
    file = options.flags.get("token-file")
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
        return check_password(sys.stdin.buffer.readline().rstrip(b"\r\n"))
    password = check_password(getpass.getpass("password: ").encode())
    if getpass.getpass("once more: ").encode() != password:
        raise ConfigError(["the passwords differ"])
    return password
