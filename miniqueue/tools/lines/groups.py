r"""The groups of a topic as a JSON line, before the lines of its messages.

    {"topic":"letters","groups":["default","audit"]}\n

A topic whose only group is `default` has no such line. Each part of a spread topic has its own, with the member `part`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import orjson

from miniqueue.core.message.names import check_new_group
from miniqueue.errors import InvalidLineError
from miniqueue.errors.requests import InvalidGroupError
from miniqueue.tools.lines.members import check_members, object_of, part_of, topic_of, value_of

#: Among messages, only those with a header or key of that name contain these bytes: within a text, quotes are escaped.
_MARK: Final = b'"groups"'
_MEMBERS: Final = {"topic", "groups", "part"}


class StoredGroups(NamedTuple):
    """The groups of a topic, in the order of their ids."""

    topic: bytes
    names: tuple[bytes, ...]
    part: int | None = None


def encode(topic: bytes, names: Iterable[bytes], part: int | None = None) -> bytes:
    """Encode the groups of a topic, or of a part of a spread one, as a line."""
    name = {"topic": shown_name(topic), **({} if part is None else {"part": part})}
    return orjson.dumps(name | {"groups": [*map(shown_name, names)]}) + b"\n"


def decode(line: bytes) -> StoredGroups | None:
    """Parse a line of groups, or return None if it is another line; raise InvalidLineError."""
    if _MARK not in line:
        return None
    members = object_of(line)
    if "groups" not in members:
        return None
    check_members(members, _MEMBERS)
    return StoredGroups(
        value_of(members, "topic", topic_of),
        value_of(members, "groups", names_of),
        value_of(members, "part", part_of, default=None),
    )


def shown_name(name: bytes) -> str:
    """Return the name of a topic or a group as text."""
    return name.decode("utf-8", "backslashreplace")


def names_of(texts: list[str]) -> tuple[bytes, ...]:
    """Parse names of groups, at least one and each only once; raise InvalidLineError."""
    if type(texts) is not list or not texts:
        raise InvalidLineError("invalid groups; must be a list of names")
    try:
        names = tuple(check_new_group(str.encode(text)) for text in texts)
    except InvalidGroupError as exc:
        raise InvalidLineError(f"invalid group name: {exc}") from exc
    except (TypeError, ValueError) as exc:
        raise InvalidLineError("invalid group name") from exc
    if len(set(names)) < len(names):
        raise InvalidLineError("a group is named twice")
    return names
