"""Users, their roles, and the topics of each role.

A pattern is the name of a topic, or its beginning followed by `*`: `orders.*` matches `orders.eu` and not `orders`; `*`
matches every topic, and the whole broker. A user contains the hash of the secret, not the secret (`hashing`).

Setting the topic of dead letters, or the target of a redrive, requires the right to publish there; otherwise an admin
of one topic could fill any other. A topic's own `.dlq` requires no further right, nor does moving dead letters back to
the topic that they came from.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from miniqueue.access.rights import ROLES, Right
from miniqueue.core.message.parts import SEPARATOR, whole_of
from miniqueue.core.settings.quotas import NO_QUOTAS, Quotas
from miniqueue.errors import InvalidTopicError, NotPermittedError

#: The user of a password without a name; as in Redis, the name can also be given.
DEFAULT_NAME = "default"
#: The pattern that matches every topic, and the whole broker.
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the broker.

    Attributes:
      name: the name in the users file.
      secret: the stored form of the secret; empty for none.
      certificate: the subject of the client certificate that authenticates the user; empty for none.
      roles: the patterns of each role of the user.
    """

    name: str
    secret: str = field(default="", repr=False)
    certificate: str = ""
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    def may(self, right: Right, topic: bytes | None = None) -> bool:
        """Return whether the user has a right on a topic, or, with None, on the whole broker."""
        if right in (Right.OPEN, Right.KNOWN):
            return True
        return any(right in ROLES[role] and _fits(patterns, topic) for role, patterns in self.roles.items())

    def sees(self, topic: bytes) -> bool:
        """Return whether the user has any role for a topic, and so may know that it exists."""
        return any(_fits(patterns, topic) for patterns in self.roles.values())

    def seen(self, topics: list[bytes]) -> list[bytes]:
        """Return the topics, of sorted ones, that `sees` returns true for; their number hardly matters."""
        return _within(self.roles.values(), topics)

    def consumable(self, topics: list[bytes]) -> list[bytes]:
        """Return the topics, of sorted ones, that the user may consume; their number hardly matters."""
        return _within((patterns for role, patterns in self.roles.items() if Right.CONSUME in ROLES[role]), topics)

    def monitored(self, topics: list[bytes]) -> list[bytes]:
        """Return the topics, of sorted ones, that the user may monitor; their number hardly matters."""
        return _within((patterns for role, patterns in self.roles.items() if Right.MONITOR in ROLES[role]), topics)


def _within(roles: Iterable[tuple[str, ...]], topics: list[bytes]) -> list[bytes]:
    """Return the topics, of sorted ones, that fit a pattern of any of these roles."""
    patterns = {pattern for patterns in roles for pattern in patterns}
    if EVERYTHING in patterns:
        return topics
    fitting: set[bytes] = set()
    for pattern in patterns:
        first = pattern.removesuffix("*").encode()
        start = bisect_left(topics, first)
        # Names are UTF-8, and so contain no byte 0xFF.
        last = first + (b"\xff" if pattern.endswith("*") else b"\x00")
        fitting.update(topics[start : bisect_left(topics, last, start)])
        if not pattern.endswith("*"):  # its parts, if it is spread, which are further on
            start = bisect_left(topics, first + SEPARATOR)
            fitting.update(topics[start : bisect_left(topics, first + b" ", start)])
    return sorted(fitting)


class Users:
    """All users of a broker at one time, by name, token, and certificate; and their quotas.

    Quotas are not a part of `User`: when they change, connections of the user continue.

    Args:
      users: the users.
      quotas: the quotas of those who have any, by name.
    """

    def __init__(self, users: Iterable[User] = (), quotas: Mapping[str, Quotas] = MappingProxyType({})) -> None:
        self._by_name = {user.name: user for user in users}
        self.quotas: Mapping[str, Quotas] = {name: quotas.get(name, NO_QUOTAS) for name in self._by_name}
        self._by_secret = {user.secret: user for user in self if user.secret}
        self._by_certificate = {user.certificate: user for user in self if user.certificate}

    def __iter__(self) -> Iterator[User]:
        """Iterate over the users in the order of their names."""
        return iter(sorted(self._by_name.values(), key=lambda user: user.name))

    def __len__(self) -> int:
        return len(self._by_name)

    def named(self, name: str) -> User | None:
        """Return the user with a name; None if there is none."""
        return self._by_name.get(name)

    def with_token(self, stored: str) -> User | None:
        """Return the user with a stored secret; works only for tokens, which are stored without a salt."""
        return self._by_secret.get(stored)

    def with_certificate(self, subject: str) -> User | None:
        """Return the user whom a certificate authenticates; None if there is none."""
        return self._by_certificate.get(subject)

    def succeeding(self, before: "Users") -> "Users":
        """Return the same users, with the objects of `before` for unchanged ones, so that `is` shows a change."""
        same = (old if (old := before.named(user.name)) == user else user for user in self)
        return Users(same, self.quotas)


def _fits(patterns: tuple[str, ...], topic: bytes | None) -> bool:
    if topic is None:
        return EVERYTHING in patterns
    topic = whole_of(topic)
    return any(
        topic.startswith(pattern[:-1].encode()) if pattern.endswith("*") else topic == pattern.encode()
        for pattern in patterns
    )


def is_permitted(user: User | None, right: Right, topic: bytes | None = None) -> bool:
    """Whether a client has a right on a topic, or, with None, on the whole broker; `user` is None if no users exist."""
    return user is None or user.may(right, topic)


def check_permitted(user: User | None, right: Right, topic: bytes | None, act: str) -> None:
    """Raise NotPermittedError for an act unless `is_permitted` on its topic, or, with None, on the whole broker."""
    if not is_permitted(user, right, topic):
        raise NotPermittedError(act)


def check_settings(user: User | None, settings: Mapping[str, object]) -> None:
    """Raise NotPermittedError if the user may not give a topic these settings; None: no users exist.

    They may name no topic of dead letters that the user may not publish to, and another owner only if the user is admin
    of the whole broker: otherwise users could have their topics counted for other users, or for none.
    """
    if user is not None and settings.get("owner", user.name) != user.name and not user.may(Right.ADMIN):
        raise NotPermittedError("TOPIC SET of another owner")
    target = settings.get("dead_letter_topic")
    if isinstance(target, str):
        check_permitted(user, Right.PUBLISH, target.encode(), "PUBLISH on the dead_letter_topic")


def viewed_by(user: User | None) -> str | None:
    """Return the name of the user whose usage a user may see, None for all users; `user` is None if there are none."""
    return None if user is None or user.may(Right.MONITOR) else user.name


def check_letters(user: User | None, topic: bytes) -> None:
    """Raise NotPermittedError if the user may not administer a topic that contains dead letters of another one."""
    check_permitted(user, Right.ADMIN, topic, "ADMIN on the topic of the dead letters")


def check_target(user: User | None, target: bytes | None) -> None:
    """Raise NotPermittedError if `target` is a topic that the user may not publish to.

    Raises InvalidTopicError for a part of a spread topic, which no client can name.
    """
    if target is not None:
        if SEPARATOR in target:
            raise InvalidTopicError
        check_permitted(user, Right.PUBLISH, target, "PUBLISH on the topic to move to")
