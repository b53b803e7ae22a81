"""The changes in the batches of a LevelDB log, by number.

    batch    = sequence:8 count:4 change*          little-endian; sequence: number of the first change

Every key that is put or deleted is one change. Changes are numbered without gaps over the lifetime of a store.

Sources: LevelDB `db/write_batch.cc`.
"""

import struct
from typing import NamedTuple

from miniqueue.storage.leveldb.files.log import Survey, begins_soundly, content_at

_HEADER = struct.Struct("<QI")


class Changes(NamedTuple):
    """The changes of a log: the number of the first change, and the number that must come next."""

    first: int
    next: int


def changes_of(log: bytes, survey: Survey) -> Changes | None:
    """Return the changes in the whole batches of a log; None if there are none, or the first is unreadable."""
    first = _header(log, survey.batch_offsets[0]) if survey.batch_offsets else None
    return None if first is None else Changes(first[0], last_change_of(log, survey) + 1)


def last_change_of(log: bytes, survey: Survey) -> int:
    """Return the number of the last change in the whole batches of a log, or 0 if there is none.

    The checksums of the log need not have been verified: a batch whose first checksum is wrong is ignored.
    """
    headers = (_header(log, offset) for offset in reversed(survey.batch_offsets))
    return next((sum(header) - 1 for header in headers if header is not None), 0)


def _header(log: bytes, offset: int) -> tuple[int, int] | None:
    """Return the number of a batch's first change and its number of changes; None if they are unreliable."""
    content = content_at(log, offset)
    if len(content) < _HEADER.size or not begins_soundly(log, offset):
        return None
    sequence, count = _HEADER.unpack_from(content)
    return sequence, count
