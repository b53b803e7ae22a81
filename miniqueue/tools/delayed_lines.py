r"""Messages that were published with a delay and are not due, as JSON lines among those of other messages.

    {"topic":"letters","id":"0-1700000060000-3","state":"unpublished","published_at":1700000000000,
     "due_at":1700000060000,"priority":"high","text":"Dear Ada"}\n

    id          as clients see it: partition, due time and serial
    priority    where it is not normal

Payload and attributes are as in `message_lines`. Knows neither files nor stores.
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.core.delayed import MAX_DUE_AT_MS, Delayed, Place
from miniqueue.core.delayed_id import DelayedId, parse_delayed_id
from miniqueue.core.lanes import number_of as number_of_priority
from miniqueue.core.lanes import with_number
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.publish_options import Priority
from miniqueue.errors import InvalidLineError
from miniqueue.tools import attribute_members
from miniqueue.tools.line_members import check_members, number_of, object_of, payload_of, shown, topic_of, value_of

STATE: Final = "unpublished"
#: Of messages only those with a header or a key of that name have these bytes: within a text the quotes are escaped.
_MARK: Final = b'"unpublished"'
_MEMBERS: Final = {
    *("topic", "id", "published_at", "due_at", "priority", "text", "msg"),
    *attribute_members.NAMES,
}


class StoredDelayed(NamedTuple):
    """A message that is not due, and where it waits."""

    topic: bytes
    place: Place
    message: Delayed


def encode(topic: bytes, place: Place, message: Delayed) -> bytes:
    """Encode a message as a line.

    Raises CorruptionError or FormatVersionError when its attributes cannot be read.
    """
    members: dict[str, object] = {
        "topic": topic.decode("utf-8", "backslashreplace"),
        "id": bytes(DelayedId(0, *place)).decode(),
        "state": STATE,
        "published_at": message.published_at_ms,
        "due_at": place[0],
    }
    if message.priority:
        members["priority"] = with_number(message.priority).value
    members |= shown(message.payload) | attribute_members.encode(message.attributes)
    return orjson.dumps(members) + b"\n"


def decode(line: bytes) -> StoredDelayed | None:
    """Parse a line, or return None if it is not one of such a message; raises InvalidLineError."""
    if _MARK not in line:
        return None
    members = object_of(line)
    if members.pop("state", None) != STATE:
        return None
    check_members(members, _MEMBERS)
    topic: bytes = value_of(members, "topic", topic_of)
    place: Place = value_of(members, "id", _place)
    if value_of(members, "due_at", number_of) != place[0]:
        raise InvalidLineError("'due_at' is not the time in 'id'")
    published_at_ms: int = value_of(members, "published_at", number_of)
    priority: Priority = value_of(members, "priority", Priority, default=Priority.NORMAL)
    payload, attributes = payload_of(members), attribute_members.take(members)
    return StoredDelayed(topic, place, Delayed(published_at_ms, number_of_priority(priority), payload, attributes))


def _place(text: str) -> Place:
    try:
        partition, due_at_ms, serial = parse_delayed_id(text.encode())
    except InvalidOptionError as exc:
        raise ValueError from exc
    if partition or not serial or max(due_at_ms, serial) > MAX_DUE_AT_MS:
        raise ValueError
    return due_at_ms, serial
