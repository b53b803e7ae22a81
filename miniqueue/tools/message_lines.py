r"""Messages as JSON lines, with everything that the store knows of them.

    {"topic":"letters","id":"0-17","state":"waiting","published_at":1700000000000,"text":"Dear Ada"}\n
    … "state":"front","returns":{"nacks":2},"serial":5, …
    … "state":"back","returns":{"backs":1},"serial":6,"behind":41, …
    … "state":"delayed","returns":{"dacks":1},"serial":7,"due_at":1700000060000, …

    … "for":["audit"], …
    … "headers":[["trace","7f"]],"key":"ada","expires_at":1700000060000,"dedup":"17","origin":{…}

    for            the groups that still are to get it there, where those are not all of the topic
    text or msg    the payload: as text when it is UTF-8, otherwise in base64
    headers …      the attributes, where there are some (`attribute_members`)
    …_at           milliseconds since 1970, UTC
    serial         numbers the returns of a topic
    behind         the sequence number that the next message published had when this one came back

Knows neither files nor stores.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from miniqueue.core.cursor import FRONT_START
from miniqueue.core.lease import Range
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.message import NEVER_RETURNED, Counts, Record
from miniqueue.core.message_id import format_message_id, parse_message_id
from miniqueue.errors import InvalidLineError
from miniqueue.tools import attribute_members
from miniqueue.tools.group_lines import names_of, shown_name
from miniqueue.tools.line_members import (
    MAX_64,
    check_members,
    number_of,
    object_of,
    payload_of,
    shown,
    topic_of,
    value_of,
)

_STATES = {Range.LOG: "waiting", Range.FRONT: "front", Range.DELAYED: "delayed", Range.BACK: "back"}
_PLACES = {state: place for place, state in _STATES.items()}
#: What makes a record's order, beside its serial number.
_HIGH = {Range.DELAYED: "due_at", Range.BACK: "behind"}
_LEADING_ZERO = re.compile(r"(^|-)0\d")
_MAX_32 = (1 << 32) - 1
#: The number of the last id that a line can have.
MAX_SEQ = MAX_64
_MEMBERS = {
    *("topic", "id", "state", "published_at", "returns", "serial", "behind", "due_at", "for", "text", "msg"),
    *attribute_members.NAMES,
}


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that is not consumed, and where it waits.

    Attributes:
      topic: its name.
      place: the range.
      order: in the range; 0 in the log.
      seq: its sequence number; None when the line of a waiting message leaves it out.
      published_at_ms: likewise.
      counts: how often it came back.
      payload: as it was published.
      attributes: likewise, encoded.
      partition: the number of the lane that it is in.
      groups: those that still are to get it there; none means all.
    """

    topic: bytes
    place: Range
    order: int
    seq: int | None
    published_at_ms: int | None
    counts: Counts
    payload: bytes
    attributes: bytes = b""
    partition: int = 0
    groups: tuple[bytes, ...] = ()


def encode(
    topic: bytes, place: Range, order: int, record: Record, partition: int = 0, groups: Iterable[bytes] = ()
) -> bytes:
    """Encode a message of a lane as a line; `order` is that of its key, any for the log, no `groups` are all.

    Raises CorruptionError or FormatVersionError when its attributes cannot be read.
    """
    members: dict[str, object] = {
        "topic": shown_name(topic),
        "id": format_message_id(partition, record.seq).decode(),
        "state": _STATES[place],
        "published_at": record.published_at_ms,
    }
    if place is not Range.LOG:
        members["returns"] = {cause: count for cause, count in record.counts._asdict().items() if count}
        members["serial"] = FRONT_START - order if place is Range.FRONT else order & (1 << 64) - 1
    if place in _HIGH:
        members[_HIGH[place]] = order >> 64
    if names := [*map(shown_name, groups)]:
        members["for"] = names
    members |= shown(record.payload) | attribute_members.encode(record.attributes)
    return orjson.dumps(members) + b"\n"


def decode(line: bytes) -> StoredMessage:
    """Parse a line; raises InvalidLineError with what is wrong in it.

    `id`, `state` and `published_at` may be left out of the line of a waiting message.
    """
    members = object_of(line)
    check_members(members, _MEMBERS)
    place = value_of(members, "state", _place, default=Range.LOG)
    is_waiting = place is Range.LOG
    message_id = value_of(members, "id", _id, default=(0, None)) if is_waiting else value_of(members, "id", _id)
    message = StoredMessage(
        topic=value_of(members, "topic", topic_of),
        place=place,
        order=0 if is_waiting else _order(members, place),
        seq=message_id[1],
        published_at_ms=value_of(members, "published_at", number_of, default=None)
        if is_waiting
        else value_of(members, "published_at", number_of),
        counts=NEVER_RETURNED if is_waiting else value_of(members, "returns", _counts),
        payload=payload_of(members),
        attributes=attribute_members.take(members),
        partition=message_id[0],
        groups=value_of(members, "for", names_of, default=()),
    )
    if members:
        raise InvalidLineError(f"{min(members)!r} has no place in the line of a message that is {_STATES[place]}")
    return message


def _order(members: dict[str, Any], place: Range) -> int:
    serial: int = value_of(members, "serial", number_of)
    if not serial:
        raise InvalidLineError("'serial' counts from 1")
    if place is Range.FRONT:
        return FRONT_START - serial
    high: int = value_of(members, _HIGH[place], number_of)
    return high << 64 | serial


def _place(text: str) -> Range:
    return _PLACES[text]


def _id(text: str) -> tuple[int, int]:
    if _LEADING_ZERO.search(text):
        raise ValueError
    try:
        number, seq = parse_message_id(text.encode())
    except InvalidOptionError as exc:
        raise ValueError from exc
    return number, number_of(seq)


def _counts(causes: dict[str, int]) -> Counts:
    return Counts(**{cause: number_of(count, _MAX_32) for cause, count in causes.items()})
