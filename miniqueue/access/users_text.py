"""The text of the file that holds the users: TOML.

    [user.ada]
    secret = "$argon2id$v=19$m=19456,t=2,p=1$…$…"     or "sha256:<64 hex digits>", of a token
    certificate = "CN=ada,O=Example"                  the subject of a client certificate, RFC 4514
    publisher = ["orders", "orders.*"]                what the user may publish to; so for every role
    subscriber = ["orders.*"]

Every problem is found before any is told. Texts are shown in problems, secrets are not. Knows no files.
"""

import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from typing import Any

from miniqueue.access.hashing import is_stored_secret
from miniqueue.access.rights import ROLES
from miniqueue.access.users import EVERYTHING, User, Users
from miniqueue.core.names import check_topic
from miniqueue.errors import ConfigError, InvalidTopicError

NAME_RULE = "a user's name is 1 to 64 letters, digits, and . _ @ -"
PATTERN_RULE = "a pattern is the name of a topic, or its beginning with * behind it"
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# The users of miniqueue. `miniqueue user` writes this file anew and keeps no comments but these.
# A broker reads it at its start and on SIGHUP.
"""


def parse_users(text: str) -> Users:
    """Return the users in the text of a file; raises ConfigError with every problem in it."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ConfigError([_toml_problem(exc)]) from exc
    problems = [f"key {key!a}: want tables [user.name] only" for key in tables if key != "user"]
    entries = tables.get("user", {})
    if not isinstance(entries, dict):
        raise ConfigError([*problems, "key user: want tables [user.name]"])
    users = [user for name, entry in entries.items() if (user := _user(name, entry, problems))]
    problems += _shared(users, "secret", lambda user: user.secret)
    problems += _shared(users, "certificate", lambda user: user.certificate)
    if problems:
        raise ConfigError(problems)
    return Users(users)


def render_users(users: Users) -> str:
    """Return the text that `parse_users` makes `users` of."""
    return _HEAD + "".join(map(_render, users))


def check_name(name: str) -> str:
    """Return a name that a user may have; raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError([f"user {name[:64]!a}: {NAME_RULE}"])
    return name


def check_pattern(pattern: str) -> str:
    """Return a pattern that can fit a topic; raises ConfigError."""
    beginning = pattern.removesuffix(EVERYTHING)
    try:
        if pattern != EVERYTHING:
            check_topic(beginning.encode())
    except (InvalidTopicError, UnicodeEncodeError) as exc:
        raise ConfigError([f"pattern {pattern[:64]!a}: {PATTERN_RULE}"]) from exc
    if EVERYTHING in beginning:
        raise ConfigError([f"pattern {pattern[:64]!a}: {PATTERN_RULE}"])
    return pattern


def _toml_problem(error: Exception) -> str:
    # Not the text of the error: it may quote what stands there, which may be a secret.
    place = re.search(r"\(at .*\)", str(error))
    return f"no TOML {place.group()}" if place else "no TOML"


def _user(name: str, entry: object, problems: list[str]) -> User | None:
    """Return the user of one table; None when there are problems, which are added."""
    count = len(problems)
    _try(problems, partial(check_name, name))
    if not isinstance(entry, dict):
        problems.append(f"user {name[:64]!a}: want a table")
        return None
    known = {"secret", "certificate", *ROLES}
    problems += [
        f"user {name[:64]!a}: key {key!a}: want one of {', '.join(sorted(known))}" for key in entry.keys() - known
    ]
    secret, certificate = entry.get("secret", ""), entry.get("certificate", "")
    if not isinstance(secret, str) or (secret and not is_stored_secret(secret)):
        problems.append(f"user {name[:64]!a}: key secret: want what `miniqueue user passwd` writes")
    if not isinstance(certificate, str):
        problems.append(f"user {name[:64]!a}: key certificate: want the subject of a certificate, such as CN=ada")
    roles = {role: _patterns(name, role, entry[role], problems) for role in ROLES if role in entry}
    return User(name, secret, certificate, roles) if len(problems) == count else None


def _patterns(name: str, role: str, given: Any, problems: list[str]) -> tuple[str, ...]:  # noqa: ANN401 - anything that TOML has
    if not isinstance(given, list) or not all(isinstance(pattern, str) for pattern in given):
        problems.append(f"user {name[:64]!a}: key {role}: want a list of patterns")
        return ()
    for pattern in given:
        _try(problems, partial(check_pattern, pattern), f"user {name[:64]!a}: key {role}: ")
    return tuple(given)


def _try(problems: list[str], check: Callable[[], object], prefix: str = "") -> None:
    try:
        check()
    except ConfigError as exc:
        problems += [prefix + problem for problem in exc.problems]


def _shared(users: list[User], what: str, value_of: Callable[[User], str]) -> list[str]:
    """Return a problem for each user who has the same as one before: it could not tell the two apart."""
    owners: dict[str, str] = {}
    return [
        f"user {user.name!a}: key {what}: {owners[value_of(user)]!a} has the same"
        for user in users
        if value_of(user) and owners.setdefault(value_of(user), user.name) != user.name
    ]


def _render(user: User) -> str:
    key = user.name if _BARE_KEY.fullmatch(user.name) else _string(user.name)
    lines = [f"\n[user.{key}]"]
    lines += [f"{key} = {_string(text)}" for key, text in _texts(user) if text]
    lines += [f"{role} = [{', '.join(map(_string, patterns))}]" for role, patterns in user.roles.items()]
    return "\n".join(lines) + "\n"


def _texts(user: User) -> list[tuple[str, str]]:
    return [("secret", user.secret), ("certificate", user.certificate)]


def _string(text: str) -> str:
    # TOML's basic strings are those of JSON, but for this character, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
