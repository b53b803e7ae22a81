"""What the batches of a LevelDB log say: which changes they are. Works on bytes.

    batch    = sequence:8 count:4 change*          little-endian; sequence: number of the first change

Every key that is put or deleted is one change, and changes are numbered without gaps over the life of a store.

Sources: LevelDB `db/write_batch.cc`.
"""

import struct
from typing import NamedTuple

from miniqueue.storage.log_tail import Survey, begins_soundly, content_at

_HEADER = struct.Struct("<QI")


class Changes(NamedTuple):
    """The changes of a log: the number of the first, and that of the one that must come next."""

    first: int
    next: int


def changes_of(log: bytes, survey: Survey) -> Changes | None:
    """Return which changes the whole batches of a log are; None when there is none, or it cannot be told."""
    first = _header(log, survey.batch_offsets[0]) if survey.batch_offsets else None
    return None if first is None else Changes(first[0], last_change_of(log, survey) + 1)


def last_change_of(log: bytes, survey: Survey) -> int:
    """Return the number of the last change among the whole batches of a log, or 0 when there is none.

    Checksums of the log need not have been verified: a batch that does not begin soundly counts for nothing.
    """
    headers = (_header(log, offset) for offset in reversed(survey.batch_offsets))
    return next((sum(header) - 1 for header in headers if header is not None), 0)


def _header(log: bytes, offset: int) -> tuple[int, int] | None:
    """Return the number of a batch's first change and how many it has; None when that cannot be relied upon."""
    content = content_at(log, offset)
    if len(content) < _HEADER.size or not begins_soundly(log, offset):
        return None
    sequence, count = _HEADER.unpack_from(content)
    return sequence, count
