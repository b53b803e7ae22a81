"""A plan as lines for people, and as JSON for programs.

+ topic orders                    created        ~ topic letters                    changed
partitions 4                                     lease_seconds 30 -> 300
- topic old (17 messages)         deleted        1 to create, 1 to change, 1 to delete
"""

import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from miniqueue.commands.applying.plan import Act, Change, Difference
from miniqueue.core.settings import settings as topic_settings

_SIGNS: Final = {Act.CREATE: "+", Act.CHANGE: "~", Act.DELETE: "-"}
#: Maximum length of a value in a line; a schema or a payload can be long.
_MAX_VALUE_CHARS: Final = 200


def lines_of(change: Change) -> list[str]:
    """Return the lines of a change: what it does, then a line for each value."""
    count = f" ({_counted(change.message_count)})" if change.act is Act.DELETE and change.message_count else ""
    head = f"{_SIGNS[change.act]} {_escaped(str(change.resource))}{count}"
    return [head, *(f"    {_line(difference, change.act)}" for difference in change.differences)]


def summary(changes: Sequence[Change]) -> str:
    """Return a line that counts the changes of a plan."""
    if not changes:
        return "nothing to do"
    numbers = {act: sum(change.act is act for change in changes) for act in Act}
    return ", ".join(f"{number} to {act}" for act, number in numbers.items() if number)


def member_of(change: Change) -> dict[str, object]:
    """Return a change as a JSON object."""
    resource = change.resource
    return {
        "act": change.act.value,
        "kind": resource.kind.value,
        **({"topic": resource.topic} if resource.topic else {}),
        "name": resource.name,
        "values": {
            difference.name: {"before": _json(difference.before), "after": _json(difference.after)}
            for difference in change.differences
        },
        **({"messages": change.message_count} if change.act is Act.DELETE else {}),
    }


def _counted(count: int) -> str:
    """Return a number of messages with its noun."""
    return f"{count} message{'' if count == 1 else 's'}"


def _line(difference: Difference, act: Act) -> str:
    before = "" if act is Act.CREATE else f"{_shown(difference.before)} -> "
    return f"{difference.name} {before}{_shown(difference.after)}"


def _shown(value: object) -> str:
    """Return a value as the text of one line."""
    match value:
        case None | "" | b"" | ():
            return "none"
        case bytes():
            text = _bytes(value)
        case datetime():
            text = value.astimezone(UTC).isoformat()
        case str():
            text = value
        case tuple():
            text = _items(value)
        case _:
            text = topic_settings.text_of(value)
    escaped = _escaped(text)
    return escaped if len(escaped) <= _MAX_VALUE_CHARS else f"{escaped[:_MAX_VALUE_CHARS]}…"


def _items(items: Iterable[object]) -> str:
    return ", ".join(f"{item[0]}: {_shown(item[1])}" if isinstance(item, tuple) else _shown(item) for item in items)


def _bytes(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"base64 {binascii.b2a_base64(content, newline=False).decode()}"


def _escaped(text: str) -> str:
    """Return text without control characters, which could change the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _json(value: object) -> object:
    match value:
        case bytes():
            return _bytes(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case tuple():
            return [_json(item) for item in value]
        case _:
            return value
