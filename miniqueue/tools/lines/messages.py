r"""Messages as JSON lines, with everything that the store contains about them.

    {"topic":"letters","id":"0-17","state":"waiting","published_at":1700000000000,"text":"Dear Ada"}\n
    … "state":"front","returns":{"nacks":2},"serial":5, …
    … "state":"back","returns":{"backs":1},"serial":6,"behind":41, …
    … "state":"delayed","returns":{"dacks":1},"serial":7,"due_at":1700000060000, …

    … "for":["audit"], …
    … "headers":[["trace","7f"]],"key":"ada","expires_at":1700000060000,"dedup":"17","origin":{…}

    for            the groups that still need the message in this state, unless all groups of the topic do
    text or msg    the payload: text if it is UTF-8, otherwise base64
    headers …      the attributes, if there are any (`attributes`)
    …_at           milliseconds since 1970, UTC
    serial         serial number of the return in its partition and group
    behind         next sequence number of the partition when the message was returned

The line of a waiting message can omit `id`, `state`, and `published_at`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from miniqueue.core.cursor.cursor import FRONT_START
from miniqueue.core.cursor.lease import Range
from miniqueue.core.message.attributes import with_failure
from miniqueue.core.message.ids import format_message_id, parse_message_id
from miniqueue.core.message.message import NEVER_RETURNED, Counts, Record
from miniqueue.errors import InvalidLineError
from miniqueue.errors.requests import InvalidOptionError
from miniqueue.tools.lines import attributes as attribute_members
from miniqueue.tools.lines.groups import names_of, shown_name
from miniqueue.tools.lines.members import MAX_INT64, check_members, number_of, object_of, topic_of, value_of
from miniqueue.wire.json_bytes import payload_member, take_payload

_STATES = {Range.LOG: "waiting", Range.FRONT: "front", Range.DELAYED: "delayed", Range.BACK: "back"}
_RANGES = {state: range_ for range_, state in _STATES.items()}
#: The member that is the high half of a record's order; the low half is the serial number.
_HIGH = {Range.DELAYED: "due_at", Range.BACK: "behind"}
_LEADING_ZERO = re.compile(r"(^|-)0\d")
_MAX_32 = (1 << 32) - 1
#: The largest sequence number of an id in a line.
MAX_SEQ = MAX_INT64
_MEMBERS = {
    *("topic", "id", "state", "published_at", "returns", "serial", "behind", "due_at", "for", "text", "msg"),
    *attribute_members.NAMES,
}


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """An unconsumed message and its position.

    Attributes:
      topic: name of the topic.
      range_: range in which the message waits.
      order: order in the range; 0 in the log.
      seq: sequence number; None if the line of a waiting message omits it.
      published_at_ms: publish time; None if the line of a waiting message omits it.
      counts: how often the message was returned, by cause.
      payload: payload as it was published.
      attributes: encoded attributes.
      partition: number of the lane.
      groups: groups that still need the message there; empty means all.
    """

    topic: bytes
    range_: Range
    order: int
    seq: int | None
    published_at_ms: int | None
    counts: Counts
    payload: bytes
    attributes: bytes = b""
    partition: int = 0
    groups: tuple[bytes, ...] = ()


def encode(
    topic: bytes, range_: Range, order: int, record: Record, partition: int = 0, groups: Iterable[bytes] = ()
) -> bytes:
    """Encode a message of a lane as a line.

    Args:
      topic: name of the topic.
      range_: range in which the message waits.
      order: order in the key of the record; ignored for the log.
      record: the message.
      partition: number of the lane.
      groups: groups that still need the message; empty means all.

    Raises CorruptionError or FormatVersionError if its attributes cannot be read.
    """
    members: dict[str, object] = {
        "topic": shown_name(topic),
        "id": format_message_id(partition, record.seq).decode(),
        "state": _STATES[range_],
        "published_at": record.published_at_ms,
    }
    if range_ is not Range.LOG:
        members["returns"] = {cause: count for cause, count in record.counts._asdict().items() if count}
        members["serial"] = FRONT_START - order if range_ is Range.FRONT else order & (1 << 64) - 1
    if range_ in _HIGH:
        members[_HIGH[range_]] = order >> 64
    if names := [*map(shown_name, groups)]:
        members["for"] = names
    attributes = with_failure(record.attributes, record.failure)
    members |= payload_member(record.payload) | attribute_members.encode(attributes)
    return orjson.dumps(members) + b"\n"


def decode(line: bytes) -> StoredMessage:
    """Parse the line of a message; raise InvalidLineError with the reason.

    The line of a waiting message can omit `id`, `state`, and `published_at`.
    """
    members = object_of(line)
    check_members(members, _MEMBERS)
    range_ = value_of(members, "state", _range, default=Range.LOG)
    is_waiting = range_ is Range.LOG
    message_id = value_of(members, "id", _id, default=(0, None)) if is_waiting else value_of(members, "id", _id)
    message = StoredMessage(
        topic=value_of(members, "topic", topic_of),
        range_=range_,
        order=0 if is_waiting else _order(members, range_),
        seq=message_id[1],
        published_at_ms=value_of(members, "published_at", number_of, default=None)
        if is_waiting
        else value_of(members, "published_at", number_of),
        counts=NEVER_RETURNED if is_waiting else value_of(members, "returns", _counts),
        payload=take_payload(members),
        attributes=attribute_members.take(members),
        partition=message_id[0],
        groups=value_of(members, "for", names_of, default=()),
    )
    if members:
        raise InvalidLineError(f"{min(members)!r} is not allowed for a message in the state {_STATES[range_]}")
    return message


def _order(members: dict[str, Any], range_: Range) -> int:
    serial: int = value_of(members, "serial", number_of)
    if not serial:
        raise InvalidLineError("invalid 'serial': 0; must be at least 1")
    if range_ is Range.FRONT:
        return FRONT_START - serial
    high: int = value_of(members, _HIGH[range_], number_of)
    return high << 64 | serial


def _range(text: str) -> Range:
    return _RANGES[text]


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
