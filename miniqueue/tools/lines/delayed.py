r"""Delayed messages as JSON lines, among the lines of other messages.

    {"topic":"letters","id":"0-1700000060000-3","state":"unpublished","published_at":1700000000000,
     "due_at":1700000060000,"priority":"high","text":"Dear Ada"}\n

    id          as clients see it: partition, due time, and serial; the partition is 0, or the first one of a part
    priority    if it is not normal

Payload and attributes are as in `messages`.
"""

from typing import Final, NamedTuple

import orjson

from miniqueue.core.log.delayed import MAX_DUE_AT_MS, Delayed, Place
from miniqueue.core.message.ids import DelayedId, parse_delayed_id
from miniqueue.core.message.lanes import Priority, with_number
from miniqueue.core.message.lanes import number_of as number_of_priority
from miniqueue.core.message.parts import MAX_PARTS, PART_BITS, part_of_partition
from miniqueue.errors import InvalidLineError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.tools.lines import attributes as attribute_members
from miniqueue.tools.lines.members import check_members, number_of, object_of, topic_of, value_of
from miniqueue.wire.json_bytes import payload_member, take_payload

STATE: Final = "unpublished"
#: Among messages, only those with a header or key of that name contain these bytes: within a text, quotes are escaped.
_MARK: Final = b'"unpublished"'
_MEMBERS: Final = {
    *("topic", "id", "published_at", "due_at", "priority", "text", "msg"),
    *attribute_members.NAMES,
}


class StoredDelayed(NamedTuple):
    """A delayed message, its due time, and its serial."""

    topic: bytes
    position: Place
    message: Delayed
    partition: int = 0


def encode(topic: bytes, position: Place, message: Delayed, partition: int = 0) -> bytes:
    """Encode a message as a line.

    Raises CorruptionError or FormatVersionError if its attributes cannot be read.
    """
    members: dict[str, object] = {
        "topic": topic.decode("utf-8", "backslashreplace"),
        "id": bytes(DelayedId(partition, *position)).decode(),
        "state": STATE,
        "published_at": message.published_at_ms,
        "due_at": position[0],
    }
    if message.priority:
        members["priority"] = with_number(message.priority).value
    members |= payload_member(message.payload) | attribute_members.encode(message.attributes)
    return orjson.dumps(members) + b"\n"


def decode(line: bytes) -> StoredDelayed | None:
    """Parse a line, or return None if it is not the line of a delayed message; raise InvalidLineError."""
    if _MARK not in line:
        return None
    members = object_of(line)
    if members.pop("state", None) != STATE:
        return None
    check_members(members, _MEMBERS)
    topic: bytes = value_of(members, "topic", topic_of)
    partition, due_at_ms, serial = value_of(members, "id", _id)
    position: Place = (due_at_ms, serial)
    if value_of(members, "due_at", number_of) != position[0]:
        raise InvalidLineError("'due_at' differs from the time in 'id'")
    published_at_ms: int = value_of(members, "published_at", number_of)
    priority: Priority = value_of(members, "priority", Priority, default=Priority.NORMAL)
    payload, attributes = take_payload(members), attribute_members.take(members)
    message = Delayed(published_at_ms, number_of_priority(priority), payload, attributes)
    return StoredDelayed(topic, position, message, partition)


def _id(text: str) -> DelayedId:
    try:
        parsed = parse_delayed_id(text.encode())
    except InvalidOptionError as exc:
        raise ValueError from exc
    part = part_of_partition(parsed.partition)
    if part >= MAX_PARTS or parsed.partition != part << PART_BITS:
        raise ValueError
    if not parsed.serial or max(parsed.due_at_ms, parsed.serial) > MAX_DUE_AT_MS:
        raise ValueError
    return parsed
