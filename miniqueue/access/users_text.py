"""The text of the users file: TOML.

    [user.ada]
    secret = "$argon2id$v=19$m=19456,t=2,p=1$…$…"     or "sha256:<64 hex digits>", of a token
    certificate = "CN=ada,O=Example"                  the subject of a client certificate, RFC 4514
    publisher = ["orders", "orders.*"]                patterns of topics, for each role
    subscriber = ["orders.*"]
    max_topics = 10                                   a quota, see `core.settings.quotas`

An error lists all problems of the text. It quotes names and patterns, but no secrets.
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
from miniqueue.core.message.names import USER_NAME_RULE, check_topic, is_user_name
from miniqueue.core.settings.quotas import FIELDS as QUOTA_FIELDS
from miniqueue.core.settings.quotas import Quotas
from miniqueue.errors import ConfigError, InvalidTopicError

NAME_RULE = f"a user's name is {USER_NAME_RULE}"
PATTERN_RULE = "must be the name of a topic, or its beginning followed by *"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_HEAD = """\
# The users of miniqueue. `miniqueue user` rewrites this file and keeps no other comments.
# A broker reads it at startup, and within 30 s after a change, or on SIGHUP.
"""


def parse_users(text: str) -> Users:
    """Parse the text of a users file; raises ConfigError with all its problems."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ConfigError([_toml_problem(exc)]) from exc
    problems = [f"key {key!a}: unknown; must be tables [user.name]" for key in tables if key != "user"]
    entries = tables.get("user", {})
    if not isinstance(entries, dict):
        raise ConfigError([*problems, "key user: invalid; must be tables [user.name]"])
    users = [user for name, entry in entries.items() if (user := _user(name, entry, problems))]
    quotas = {name: _quotas(name, entry, problems) for name, entry in entries.items() if isinstance(entry, dict)}
    problems += _shared(users, "secret", lambda user: user.secret)
    problems += _shared(users, "certificate", lambda user: user.certificate)
    if problems:
        raise ConfigError(problems)
    return Users(users, quotas)


def render_users(users: Users) -> str:
    """Return the text of a users file, which `parse_users` parses."""
    return _HEAD + "".join(_render(user, users.quotas[user.name]) for user in users)


def check_name(name: str) -> str:
    """Return `name` if it is valid for a user; raises ConfigError otherwise."""
    if not is_user_name(name):
        raise ConfigError([f"user {name[:64]!a}: {NAME_RULE}"])
    return name


def check_pattern(pattern: str) -> str:
    """Return `pattern` if it can match a topic; raises ConfigError otherwise."""
    beginning = pattern.removesuffix(EVERYTHING)
    try:
        if pattern != EVERYTHING:
            check_topic(beginning.encode())
    except (InvalidTopicError, UnicodeEncodeError) as exc:
        raise ConfigError([f"pattern {pattern[:64]!a}: invalid; {PATTERN_RULE}"]) from exc
    if EVERYTHING in beginning:
        raise ConfigError([f"pattern {pattern[:64]!a}: invalid; {PATTERN_RULE}"])
    return pattern


def _toml_problem(error: Exception) -> str:
    # Without the text of the error, which may quote the line, and so a secret.
    position = re.search(r"\(at .*\)", str(error))
    return f"no TOML {position.group()}" if position else "no TOML"


def _user(name: str, entry: object, problems: list[str]) -> User | None:
    """Return the user of one table; if there are problems, add them, and return None."""
    count = len(problems)
    _try(problems, partial(check_name, name))
    if not isinstance(entry, dict):
        problems.append(f"user {name[:64]!a}: invalid; must be a table")
        return None
    known = {"secret", "certificate", *ROLES, *QUOTA_FIELDS}
    allowed = ", ".join(sorted(known))
    problems += [f"user {name[:64]!a}: key {key!a}: unknown; must be one of {allowed}" for key in entry.keys() - known]
    secret, certificate = entry.get("secret", ""), entry.get("certificate", "")
    if not isinstance(secret, str) or (secret and not is_stored_secret(secret)):
        problems.append(f"user {name[:64]!a}: key secret: invalid; must be written by `miniqueue user passwd`")
    if not isinstance(certificate, str):
        problems.append(
            f"user {name[:64]!a}: key certificate: invalid; must be the subject of a certificate, such as CN=ada"
        )
    roles = {role: _patterns(name, role, entry[role], problems) for role in ROLES if role in entry}
    return User(name, secret, certificate, roles) if len(problems) == count else None


def _quotas(name: str, entry: dict[str, Any], problems: list[str]) -> Quotas:
    quotas: dict[str, Any] = {}
    for key, row in QUOTA_FIELDS.items():
        try:
            quotas[key] = row.check(entry[key]) if key in entry else None
        except (ValueError, TypeError):
            problems.append(f"user {name[:64]!a}: key {key}: invalid; must be {row.allowed}")
    return Quotas(**quotas)


def _patterns(name: str, role: str, value: Any, problems: list[str]) -> tuple[str, ...]:  # noqa: ANN401 - any type of TOML
    if not isinstance(value, list) or not all(isinstance(pattern, str) for pattern in value):
        problems.append(f"user {name[:64]!a}: key {role}: invalid; must be a list of patterns")
        return ()
    for pattern in value:
        _try(problems, partial(check_pattern, pattern), f"user {name[:64]!a}: key {role}: ")
    return tuple(value)


def _try(problems: list[str], check: Callable[[], object], prefix: str = "") -> None:
    try:
        check()
    except ConfigError as exc:
        problems += [prefix + problem for problem in exc.problems]


def _shared(users: list[User], key: str, value_of: Callable[[User], str]) -> list[str]:
    """Return a problem for each user with the value of an earlier one, as it would not identify a user."""
    owners: dict[str, str] = {}
    return [
        f"user {user.name!a}: key {key}: same as that of user {owners[value_of(user)]!a}"
        for user in users
        if value_of(user) and owners.setdefault(value_of(user), user.name) != user.name
    ]


def _render(user: User, quotas: Quotas) -> str:
    key = user.name if _BARE_KEY.fullmatch(user.name) else _string(user.name)
    lines = [f"\n[user.{key}]"]
    lines += [f"{key} = {_string(text)}" for key, text in _texts(user) if text]
    lines += [f"{role} = [{', '.join(map(_string, patterns))}]" for role, patterns in user.roles.items()]
    lines += [f"{name} = {value}" for name, value in quotas.members().items()]
    return "\n".join(lines) + "\n"


def _texts(user: User) -> list[tuple[str, str]]:
    return [("secret", user.secret), ("certificate", user.certificate)]


def _string(text: str) -> str:
    # The basic strings of TOML are those of JSON, except this character, which TOML requires to be escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
