r"""Schedules as JSON lines, among the lines of messages.

    {"schedule":"report","next_at":1700035200000,"topic":"reports","cron":"0 9 * * *","zone":"Europe/Berlin",
     "missed":"all","text":"now"}\n
    … "every_ms":60000 instead of cron and zone
    … "until_ms":1701388800000,"priority":"high","ttl":30,"headers":[["name","value"]],"key":"…" if they are set

The payload is in `text` or `msg`, headers and key are as in `messages`.
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.core.message.names import check_new_topic
from miniqueue.core.settings import schedule as schedules
from miniqueue.core.settings.schedule import Schedule, check_new_schedule_name
from miniqueue.errors import InvalidLineError, InvalidTopicError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.tools.lines import attributes
from miniqueue.tools.lines.members import check_members, number_of, object_of, value_of
from miniqueue.wire.json_bytes import payload_member, take_payload

#: Among messages, only those with a header of that name contain these bytes: within a text, quotes are escaped.
_MARK: Final = b'"schedule"'
_MEMBERS: Final = {
    *("schedule", "next_at", "topic", "cron", "zone", "every_ms", "missed", "until_ms", "priority", "ttl"),
    *("headers", "key", "text", "msg"),
}


class StoredSchedule(NamedTuple):
    """A schedule, its name, and its next tick."""

    name: bytes
    schedule: Schedule
    next_at_ms: int


def encode(name: bytes, schedule: Schedule, next_at_ms: int) -> bytes:
    """Encode a schedule as a line."""
    named = {"schedule": name.decode("utf-8", "backslashreplace"), "next_at": next_at_ms}
    described = attributes.encode(schedule.attributes)
    return orjson.dumps(named | schedule.members() | described | payload_member(schedule.payload)) + b"\n"


def decode(line: bytes) -> StoredSchedule | None:
    """Parse a line, or return None if it is not the line of a schedule; raise InvalidLineError."""
    if _MARK not in line:
        return None
    members = object_of(line)
    if "schedule" not in members:
        return None
    check_members(members, _MEMBERS)
    name: bytes = value_of(members, "schedule", _name)
    next_at_ms: int = value_of(members, "next_at", number_of)
    payload, described = take_payload(members), attributes.take(members)
    try:
        stored = StoredSchedule(name, schedules.of_members(members, payload, described), next_at_ms)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidTopicError) as exc:
        raise InvalidLineError("invalid schedule") from exc
    try:
        check_new_topic(stored.schedule.topic)
    except InvalidTopicError as exc:
        raise InvalidLineError(f"invalid 'topic': {exc}") from exc
    return stored


def _name(text: str) -> bytes:
    try:
        return check_new_schedule_name(str.encode(text))
    except InvalidOptionError as exc:
        raise InvalidLineError(f"invalid 'schedule': {exc}") from exc
