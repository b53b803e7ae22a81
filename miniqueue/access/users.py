"""Users, their roles, and the topics that a role is for.

A pattern is the name of a topic, or its beginning with `*` behind it: `orders.*` fits `orders.eu` and not `orders`; `*`
fits every topic, and alone also the broker as a whole. Holds no secret, only what tells whether one is right
(`hashing`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from miniqueue.access.rights import ROLES, Right

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may use the broker.

    Attributes:
      name: as in the file.
      secret: what tells whether a secret is right; empty when the user has none.
      certificate: the subject of the client certificate that stands for the user; empty for none.
      roles: the patterns of each role that the user has.
    """

    name: str
    secret: str = field(default="", repr=False)
    certificate: str = ""
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def may(self, right: Right, topic: bytes | None = None) -> bool:
        """Tell whether the user has a right, on a topic, or with None on the broker as a whole."""
        if right in (Right.OPEN, Right.KNOWN):
            return True
        return any(right in ROLES[role] and _fits(patterns, topic) for role, patterns in self.roles.items())

    def sees(self, topic: bytes) -> bool:
        """Tell whether the user has any role for a topic, and so may know of it."""
        return any(_fits(patterns, topic) for patterns in self.roles.values())


class Users:
    """All users of a broker, as of one moment, by all that they are known by."""

    def __init__(self, users: Iterable[User] = ()) -> None:
        self._by_name = {user.name: user for user in users}
        self._by_secret = {user.secret: user for user in self if user.secret}
        self._by_certificate = {user.certificate: user for user in self if user.certificate}

    def __iter__(self) -> Iterator[User]:
        """Go through the users by name."""
        return iter(sorted(self._by_name.values(), key=lambda user: user.name))

    def __len__(self) -> int:
        return len(self._by_name)

    def named(self, name: str) -> User | None:
        """Return the user of that name."""
        return self._by_name.get(name)

    def with_token(self, stored: str) -> User | None:
        """Return the user whose secret is kept as `stored`; only of tokens is that the same every time."""
        return self._by_secret.get(stored)

    def with_certificate(self, subject: str) -> User | None:
        """Return the user for whom a certificate stands."""
        return self._by_certificate.get(subject)

    def succeeding(self, before: "Users") -> "Users":
        """Return the same users; who is as `before` is the same object, so that a change shows in the identity."""
        return Users(old if (old := before.named(user.name)) == user else user for user in self)


def _fits(patterns: tuple[str, ...], topic: bytes | None) -> bool:
    if topic is None:
        return EVERYTHING in patterns
    return any(
        topic.startswith(pattern[:-1].encode()) if pattern.endswith("*") else topic == pattern.encode()
        for pattern in patterns
    )
