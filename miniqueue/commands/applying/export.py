"""The file of `miniqueue apply` for what a broker has: applied to the same broker, it changes nothing.

Contains the settings that are not at their defaults, all groups and schedules, and no secrets and no pauses.
"""

import binascii
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from miniqueue.commands.applying.document import BARE_KEY, SETTINGS
from miniqueue.commands.applying.plan import DEFAULT_GROUP
from miniqueue.commands.applying.resources import (
    IDLE,
    OWN_TOPICS,
    SCHEDULE_DEFAULTS,
    Existing,
    Kind,
    Resource,
    Values,
)
from miniqueue.core.settings import settings as topic_settings

_HEAD: Final = "# Topics, groups, and schedules of a miniqueue broker; `miniqueue apply -f` reads this file.\n"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Settings that the broker sets by itself, or that are the state of a moment.
_LEFT_OUT: Final = frozenset({"owner", "paused_in_until_ms", "paused_out_until_ms"})


def render(existing: Existing) -> str:
    """Return the text of the file, which `document.parse` parses."""
    topics = [topic for topic in _sorted(existing, Kind.TOPIC) if not topic.name.startswith(OWN_TOPICS)]
    tables = [_topic_table(existing, topic) for topic in topics]
    tables += [_schedule_table(existing, resource) for resource in _sorted(existing, Kind.SCHEDULE)]
    return "\n".join([_HEAD, *tables])


def _sorted(existing: Existing, kind: Kind) -> list[Resource]:
    return sorted(resource for resource in existing.resources if resource.kind is kind)


def _topic_table(existing: Existing, resource: Resource) -> str:
    settings = existing.resources[resource]
    named = {
        name: value
        for name, value in settings.items()
        if name in SETTINGS and name not in _LEFT_OUT and value != topic_settings.DEFAULTS[name]
    }
    groups = [
        group
        for group in existing.resources
        if group.kind is Kind.GROUP and group.topic == resource.name and group not in existing.own_end
    ]
    lines = _table(f"topics.{_key(resource.name)}", named)
    for group in sorted(group for group in groups if group.name != DEFAULT_GROUP or existing.resources[group][IDLE]):
        values = {name: value for name, value in existing.resources[group].items() if value}
        lines += _table(f"topics.{_key(resource.name)}.groups.{_key(group.name)}", values)
    return "".join(lines)


def _schedule_table(existing: Existing, resource: Resource) -> str:
    values = {name: value for name, value in existing.resources[resource].items() if value != SCHEDULE_DEFAULTS[name]}
    return "".join(_table(f"schedules.{_key(resource.name)}", values))


def _table(name: str, values: Values) -> list[str]:
    return [f"[{name}]\n", *_lines(values)]


def _lines(values: Values) -> Iterator[str]:
    for name, value in values.items():
        yield f"{_key(name)} = {_value(name, value)}\n"


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _value(name: str, value: object) -> str:
    match value:
        case bytes():
            return _bytes(value)
        case int() if name == "until":
            return (_EPOCH + timedelta(milliseconds=value)).isoformat()
        case tuple():
            return f"[{', '.join(_items(value))}]"
        case str():
            return _text(value)
        case _:  # a number, or true or false, as RESP has it, too
            return topic_settings.text_of(value)


def _items(items: Iterable[object]) -> Iterator[str]:
    for item in items:
        match item:
            case (str() as name, bytes() as content):
                yield f"[{_text(name)}, {_bytes(content)}]"
            case _:
                yield _value("", item)


def _bytes(content: bytes) -> str:
    try:
        return _text(content.decode())
    except UnicodeDecodeError:
        return f"{{base64 = {_text(binascii.b2a_base64(content, newline=False).decode())}}}"


def _text(text: str) -> str:
    """Return a basic string of TOML: as JSON writes it, and DEL, which TOML does not allow, escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
