"""Keys and values of schedules: what a schedule does (SCHEDULE), and when it is next due (TICK).

The two are separate, because a tick is read at every startup and written with every message, while a schedule is read
only when it is due. The value of a tick is a number (`values.encode_number`). The grammar is in `keys`, the forms of
the values are in `values`.
"""

import struct

import orjson

from miniqueue.core.settings.schedule import Schedule, of_members
from miniqueue.errors import InvalidTopicError
from miniqueue.storage.format.keys import KeyRange, Space, space_range
from miniqueue.storage.format.values import malformed, seal, unseal

_lengths = struct.Struct("<II")
_length = struct.Struct("<I")
_TICK, _SCHEDULE = bytes([Space.TICK]), bytes([Space.SCHEDULE])


def tick(name: bytes) -> bytes:
    """Key of the next due time of a schedule."""
    return _TICK + name


def schedule(name: bytes) -> bytes:
    """Key of what a schedule does."""
    return _SCHEDULE + name


def name_of(key: bytes) -> bytes:
    """Parse `tick` or `schedule`."""
    return key[1:]


def ticks() -> KeyRange:
    """Range of the due times of all schedules."""
    return space_range(Space.TICK)


def schedules(after: bytes = b"") -> KeyRange:
    """Range of the schedules whose names sort after `after`; all schedules if it is empty."""
    start, stop = space_range(Space.SCHEDULE)
    return start + after + b"\x00" * bool(after), stop


def encode_schedule(schedule: Schedule) -> bytes:
    """Encode what a schedule does; raises InvalidAttributesError if the attributes of its messages are too long."""
    members, attributes = orjson.dumps(schedule.members()), schedule.attributes
    return seal(_lengths.pack(len(members), len(attributes)), members, attributes, schedule.payload, version=b"\x02")


def decode_schedule(value: bytes) -> Schedule:
    """Parse `encode_schedule`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    body = unseal(value, "schedule", 2)
    layout = _length if value[0] == 1 else _lengths
    if len(body) < layout.size:
        raise malformed("schedule")
    members_length, *attributes_length = layout.unpack_from(body)
    attributes_at = layout.size + members_length
    payload_at = attributes_at + sum(attributes_length)
    if len(body) < payload_at:
        raise malformed("schedule")
    members, attributes, payload = body[layout.size : attributes_at], body[attributes_at:payload_at], body[payload_at:]
    try:
        return of_members(orjson.loads(members), payload, attributes)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidTopicError) as exc:
        raise malformed("schedule") from exc
