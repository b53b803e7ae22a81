"""The users of a file in the users file of a broker on this machine: roles, quotas, certificates, never secrets.

A new user has no secret, and cannot authenticate unless with a certificate, until `miniqueue user passwd` sets one.
An existing one keeps its secret.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from miniqueue.access.rights import ROLES
from miniqueue.access.users import User, Users
from miniqueue.commands.applying.plan import Act, Change
from miniqueue.commands.applying.resources import USER_DEFAULTS, Kind, Resource, Values
from miniqueue.core.settings.quotas import FIELDS as QUOTA_FIELDS
from miniqueue.core.settings.quotas import Quotas
from miniqueue.server.security.users_file import change_users, read_users


def existing_users(path: Path) -> Mapping[Resource, Values]:
    """Return the users in a file, none if it is missing; raises ConfigError."""
    users = read_users(path) if path.exists() else Users()
    return {Resource(Kind.USER, user.name): _values(user, users.quotas[user.name]) for user in users}


def carry_out_users(path: Path, changes: Sequence[Change], described: Mapping[Resource, Values]) -> list[str]:
    """Carry out all changes of users in one write of the file; return the new users without a secret.

    Raises ConfigError, and then nothing has changed.
    """
    without_secret: list[str] = []

    def change(users: Users) -> Users:
        remaining = {user.name: user for user in users}
        quotas = dict(users.quotas)
        for act, resource, *_ in changes:
            name = resource.name
            old = remaining.pop(name, User(name))
            quotas.pop(name, None)
            if act is Act.DELETE:
                continue
            remaining[name] = _user(old, described[resource])
            quotas[name] = _quotas(described[resource])
            if not remaining[name].secret and not remaining[name].certificate:
                without_secret.append(name)
        return Users(remaining.values(), quotas)

    change_users(path, change)
    return without_secret


def _values(user: User, quotas: Quotas) -> Values:
    roles = {role: tuple(user.roles.get(role, ())) for role in ROLES}
    return {**USER_DEFAULTS, "certificate": user.certificate, **quotas._asdict(), **roles}


def _user(old: User, values: Values) -> User:
    roles: dict[str, Any] = {role: values[role] for role in ROLES if values[role]}
    return User(old.name, old.secret, str(values["certificate"]), roles)


def _quotas(values: Mapping[str, Any]) -> Quotas:
    return Quotas(**{name: values[name] for name in QUOTA_FIELDS})
