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
    """Encode what a schedule does."""
    members = orjson.dumps(schedule.members())
    return seal(_length.pack(len(members)), members, schedule.payload)


def decode_schedule(value: bytes) -> Schedule:
    """Parse `encode_schedule`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    body = unseal(value, "schedule")
    if len(body) < _length.size:
        raise malformed("schedule")
    payload_at = _length.size + _length.unpack_from(body)[0]
    try:
        return of_members(orjson.loads(body[_length.size : payload_at]), body[payload_at:])
    except (KeyError, TypeError, ValueError, AttributeError, InvalidTopicError) as exc:
        raise malformed("schedule") from exc
