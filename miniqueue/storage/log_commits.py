"""What the batches of a LevelDB log say: which commit is the last, and which changes they are. Works on bytes.

    batch    = sequence:8 count:4 change*          little-endian; sequence: number of the first change
    change   = 1 key value | 0 key                 put and delete
    key, value = length:varint bytes

Sources: LevelDB `db/write_batch.cc`.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from miniqueue.errors import CorruptionError, FormatVersionError
from miniqueue.storage import keys, records
from miniqueue.storage.log_tail import Survey, begins_soundly, content_at
from miniqueue.storage.varint import varint

_HEADER = struct.Struct("<QI")
_PUT = 1


class Changes(NamedTuple):
    """The changes of a log: the number of the first, and that of the one that must come next."""

    first: int
    next: int


def changes_of(log: bytes, survey: Survey) -> Changes | None:
    """Return which changes the whole batches of a log are; None when there is none, or it cannot be told."""
    if not survey.batch_offsets or not begins_soundly(log, survey.batch_offsets[0]):
        return None
    first, last = (content_at(log, survey.batch_offsets[place]) for place in (0, -1))
    if min(len(first), len(last)) < _HEADER.size:
        return None
    number, count = _HEADER.unpack_from(last)
    return Changes(_HEADER.unpack_from(first)[0], number + count)


def last_commit_of(log: bytes, survey: Survey) -> int | None:
    """Return the number of the last commit among the whole batches of a log, or None when there is none."""
    for offset in reversed(survey.batch_offsets):
        for key, value in _puts(content_at(log, offset)):
            if key == keys.COMMIT and (number := _number(value)) is not None:
                return number
    return None


def _number(value: bytes) -> int | None:
    try:
        return records.decode_number(value)
    except (CorruptionError, FormatVersionError):
        return None  # checksums of the log were not verified yet


def _puts(batch: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield what a batch puts, up to where it makes no sense."""
    offset = _HEADER.size
    try:
        while offset < len(batch):
            is_put = batch[offset] == _PUT
            key, offset = _text(batch, offset + 1)
            if is_put:
                value, offset = _text(batch, offset)
                yield key, value
    except IndexError:
        return


def _text(batch: bytes, offset: int) -> tuple[bytes, int]:
    length, offset = varint(batch, offset)
    return batch[offset : offset + length], offset + length
