"""The rights of users as the page shows them, so that it offers only what the user may do."""

from typing import Final

from miniqueue.access.rights import Right
from miniqueue.access.users import User, is_permitted

#: The rights that are listed, for a topic or for the whole broker.
RIGHTS: Final = (Right.PUBLISH, Right.CONSUME, Right.MONITOR, Right.ADMIN)


def roles_of(user: User) -> list[dict[str, object]]:
    """Return the roles of a user, with the patterns of the topics of each."""
    return [{"role": role, "topics": list(patterns)} for role, patterns in sorted(user.roles.items())]


def rights_of(user: User | None, topic: bytes | None) -> list[str]:
    """Return the rights of a user on a topic, or, with None, on the whole broker."""
    return [right.value for right in RIGHTS if is_permitted(user, right, topic)]
