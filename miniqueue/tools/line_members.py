"""What the lines of messages have in common: members of a JSON object, taken out one by one."""

import binascii
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import orjson

from miniqueue.core.names import check_new_topic
from miniqueue.errors import InvalidLineError, InvalidTopicError

MAX_64 = (1 << 63) - 1


def object_of(line: bytes) -> dict[str, Any]:
    """Parse a line; raises InvalidLineError when it is no object."""
    try:
        members = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidLineError("the line is not JSON") from exc
    if not isinstance(members, dict):
        raise InvalidLineError("the line is not a JSON object")
    return members


def check_members(members: Mapping[str, object], names: AbstractSet[str]) -> None:
    """Raise InvalidLineError when there is a member that is not among `names`."""
    if unknown := members.keys() - names:
        raise InvalidLineError(f"there is no member {min(unknown)!r}")


_MISSING = object()


def value_of(members: dict[str, Any], name: str, parse: Callable[[Any], Any], default: object = _MISSING) -> Any:  # noqa: ANN401 - each parser has its own type
    """Take a member out and parse it; raises InvalidLineError when it is missing or wrong."""
    if name not in members:
        if default is _MISSING:
            raise InvalidLineError(f"{name!r} is missing")
        return default
    try:
        return parse(members.pop(name))
    except InvalidTopicError as exc:
        raise InvalidLineError(f"{name!r} is wrong: {exc}") from exc
    except (TypeError, ValueError, KeyError) as exc:
        raise InvalidLineError(f"{name!r} is wrong") from exc


def payload_of(members: dict[str, Any]) -> bytes:
    """Take the payload out; raises InvalidLineError."""
    if ("text" in members) is ("msg" in members):
        raise InvalidLineError("either 'text' or 'msg' must be there")
    name, parse = ("text", str.encode) if "text" in members else ("msg", _bytes)
    payload: bytes = value_of(members, name, parse)
    return payload


def _bytes(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)


def topic_of(text: str) -> bytes:
    """Parse the name of a topic to be made; raises InvalidTopicError."""
    return check_new_topic(str.encode(text))


def number_of(number: int, maximum: int = MAX_64) -> int:
    """Return `number` if it is one; raises ValueError."""
    if type(number) is not int or not 0 <= number <= maximum:  # True is an int too
        raise ValueError
    return number


def shown(payload: bytes) -> dict[str, object]:
    """Return the member that has a payload."""
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"msg": binascii.b2a_base64(payload, newline=False).decode()}
