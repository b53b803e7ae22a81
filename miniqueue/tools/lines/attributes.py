"""The attributes of a message as members of its JSON line.

    "headers":[["name","value"],…]  "key":"…"  "expires_at":ms  "dedup":"…"  "reply_to":"…"  "unique":"…"
    "only_for":"…"  "failure":"…"
    "origin":{"topic":"letters","id":"0-17","published_at":ms,"died_at":ms,"returns":{"nacks":3},"reason":"…",
              "group":"…" if it is not the default group}

Bytes that are not UTF-8 are {"base64":"…"} instead of a string. Times are in milliseconds since 1970, UTC.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from miniqueue.core.message import attributes
from miniqueue.core.message.attributes import Attributes, Origin
from miniqueue.core.message.message import Counts
from miniqueue.core.message.names import DEFAULT_GROUP_NAME, check_group, check_topic
from miniqueue.errors import InvalidAttributesError, InvalidLineError, RequestError
from miniqueue.wire.json_bytes import bytes_value, parse_bytes

_ORIGIN_MEMBERS = frozenset(("topic", "id", "published_at", "died_at", "returns", "reason"))
_ID = re.compile(r"(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,19})")
_MAX_64, _MAX_32 = (1 << 64) - 1, (1 << 32) - 1


def encode(encoded: bytes) -> dict[str, object]:
    """Return the members for attributes that `core.message.attributes` encoded.

    Raises CorruptionError or FormatVersionError if they cannot be read.
    """
    if not encoded:
        return {}
    decoded = attributes.decode(encoded)
    members: dict[str, object] = {
        "headers": [[bytes_value(name), bytes_value(value)] for name, value in decoded.headers],
        "key": bytes_value(decoded.key),
        "expires_at": decoded.expires_at_ms,
        "dedup": bytes_value(decoded.dedup_id),
        "origin": None if decoded.origin is None else _origin_members(decoded.origin),
        "reply_to": bytes_value(decoded.reply_to),
        "unique": bytes_value(decoded.unique_key),
        "only_for": decoded.only_for.decode("utf-8", "backslashreplace"),
        "failure": bytes_value(decoded.failure),
    }
    return {name: value for name, value in members.items() if value}


def take(members: dict[str, Any]) -> bytes:
    """Remove the attributes from the members of a line, and encode them for storage; raise InvalidLineError."""
    fields: dict[str, Any] = {}
    for name in filter(members.__contains__, _PARSERS):
        field, parse = _PARSERS[name]
        try:
            fields[field] = parse(members.pop(name))
        except (TypeError, ValueError, KeyError, AttributeError, RequestError) as exc:
            raise InvalidLineError(f"invalid {name!r}") from exc
    try:
        return Attributes(**fields).encode()
    except InvalidAttributesError as exc:
        raise InvalidLineError(str(exc)) from exc


def _origin_members(origin: Origin) -> dict[str, object]:
    return {
        "topic": origin.topic.decode("utf-8", "backslashreplace"),
        "id": f"{origin.partition}-{origin.seq}",
        "published_at": origin.published_at_ms,
        "died_at": origin.died_at_ms,
        "returns": {cause: count for cause, count in origin.counts._asdict().items() if count},
        "reason": bytes_value(origin.reason),
        **({} if origin.group == DEFAULT_GROUP_NAME else {"group": origin.group.decode("utf-8", "backslashreplace")}),
    }


def _origin(members: dict[str, Any]) -> Origin:
    match = _ID.fullmatch(members["id"])
    group = _group(members.get("group", "default"))
    if match is None or members.keys() - {"group"} != _ORIGIN_MEMBERS:
        raise ValueError
    return Origin(
        topic=check_topic(members["topic"].encode()),
        partition=_number(int(match[1]), _MAX_32),
        seq=_number(int(match[2])),
        published_at_ms=_number(members["published_at"]),
        died_at_ms=_number(members["died_at"]),
        counts=Counts(**{cause: _number(count, _MAX_32) for cause, count in members["returns"].items()}),
        reason=parse_bytes(members["reason"]),
        group=group,
    )


def _group(text: str) -> bytes:
    return check_group(text.encode())


def _headers(pairs: list[list[Any]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((parse_bytes(name), parse_bytes(value)) for name, value in pairs)


def _number(number: int, maximum: int = _MAX_64) -> int:
    if type(number) is not int or not 0 <= number <= maximum:  # True is an int too
        raise ValueError
    return number


_PARSERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "headers": ("headers", _headers),
        "key": ("key", parse_bytes),
        "expires_at": ("expires_at_ms", _number),
        "dedup": ("dedup_id", parse_bytes),
        "origin": ("origin", _origin),
        "reply_to": ("reply_to", parse_bytes),
        "unique": ("unique_key", parse_bytes),
        "only_for": ("only_for", _group),
        "failure": ("failure", parse_bytes),
    }
)
#: Names of the members of a line that are attributes.
NAMES = frozenset(_PARSERS)
