"""Keys and values of acts on many messages that continue after a restart (TASK), by their numbers.

The members of a value are defined by the broker. The grammar is in `keys`, the forms of the values are in `values`.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from miniqueue.storage.format.keys import TASK_LAYOUT, KeyRange, Space, space_range
from miniqueue.storage.format.values import malformed, seal, unseal


def task(number: int) -> bytes:
    """Key of a task."""
    return TASK_LAYOUT.pack(Space.TASK, number)


def number_of(key: bytes) -> int:
    """Parse `task`."""
    number: int = TASK_LAYOUT.unpack(key)[1]
    return number


def tasks() -> KeyRange:
    """Range of all tasks."""
    return space_range(Space.TASK)


def encode_task(members: Mapping[str, Any]) -> bytes:
    """Encode a task."""
    return seal(orjson.dumps(members))


def decode_task(value: bytes) -> dict[str, Any]:
    """Parse `encode_task`; raise CorruptionError or FormatVersionError, as all parsers of values do."""
    try:
        members = orjson.loads(unseal(value, "task"))
    except orjson.JSONDecodeError as exc:
        raise malformed("task") from exc
    if not isinstance(members, dict):
        raise malformed("task")
    return members
