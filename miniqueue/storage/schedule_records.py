"""Values of schedules. The grammar stands in `records`; when one is due next is a number."""

import struct

import orjson

from miniqueue.core import schedule as schedules
from miniqueue.core.schedule import Schedule
from miniqueue.errors import InvalidTopicError
from miniqueue.storage.sealing import malformed, seal, unseal

_length = struct.Struct("<I")


def encode_schedule(schedule: Schedule) -> bytes:
    """Encode what a schedule does."""
    members = orjson.dumps(schedule.members())
    return seal(_length.pack(len(members)), members, schedule.payload)


def decode_schedule(value: bytes) -> Schedule:
    """Parse `encode_schedule`; raises CorruptionError or FormatVersionError."""
    body = unseal(value, "schedule")
    if len(body) < _length.size:
        raise malformed("schedule")
    payload_at = _length.size + _length.unpack_from(body)[0]
    try:
        return schedules.of_members(orjson.loads(body[_length.size : payload_at]), body[payload_at:])
    except (KeyError, TypeError, ValueError, AttributeError, InvalidTopicError) as exc:
        raise malformed("schedule") from exc
