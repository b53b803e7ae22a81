"""The members of a JSON line: each is removed and parsed on its own, and what remains is an error."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import orjson

from miniqueue.core.message.names import check_new_topic
from miniqueue.core.message.parts import MAX_PARTS
from miniqueue.errors import InvalidLineError, InvalidTopicError

#: The largest number in a line: that of a signed integer of 64 bits.
MAX_INT64 = (1 << 63) - 1


def object_of(line: bytes) -> dict[str, Any]:
    """Parse a line; raise InvalidLineError unless it is an object."""
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the line is not JSON") from exc
    if not isinstance(members, dict):
        raise InvalidLineError("the line is not a JSON object")
    return members


def check_members(members: Mapping[str, object], names: AbstractSet[str]) -> None:
    """Raise InvalidLineError if there is a member that is not in `names`."""
    if unknown := members.keys() - names:
        raise InvalidLineError(f"unknown member {min(unknown)!r}")


_MISSING = object()


def value_of(members: dict[str, Any], name: str, parse: Callable[[Any], Any], default: object = _MISSING) -> Any:  # noqa: ANN401 - each parser has its own type
    """Remove a member and parse it; raise InvalidLineError if it is missing or invalid."""
    if name not in members:
        if default is _MISSING:
            raise InvalidLineError(f"{name!r} is missing")
        return default
    try:
        return parse(members.pop(name))
    except InvalidTopicError as exc:
        raise InvalidLineError(f"invalid {name!r}: {exc}") from exc
    except (TypeError, ValueError, KeyError) as exc:
        raise InvalidLineError(f"invalid {name!r}") from exc


def topic_of(text: str) -> bytes:
    """Parse the name of a topic to create; raise InvalidTopicError."""
    return check_new_topic(str.encode(text))


def part_of(number: int) -> int:
    """Return the number of a part of a spread topic, if it is one; raise ValueError."""
    return number_of(number, MAX_PARTS - 1)


def number_of(number: int, maximum: int = MAX_INT64) -> int:
    """Return `number` if it is an integer from 0 to `maximum`; raise ValueError."""
    if type(number) is not int or not 0 <= number <= maximum:  # True is an int too
        raise ValueError
    return number
