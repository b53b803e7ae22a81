"""Retention: chunks that a partition keeps after all groups have finished them, so that they can be read again.

    log:    ░░░░░░░ [kept][kept][kept] … [kept] [open] [unread] …         ░ deleted
                    ▲ start_seq                 ▲ floor: the first chunk that a group has not finished

When a topic begins to retain, `start_seq` is after the last hole of its log, which may be after the floor. Chunks are
deleted whole, and only from the front, normally none after the floor: a chunk over the limits is deleted when every
group has finished it. A topic that retains no more still has the chunks that it kept, up to `stop_seq`; these are
deleted from the front, too, while later chunks are deleted as soon as they are finished.

    none ──settings retain──▶ KEPT ──settings do not retain──▶ ENDING ──start_seq reaches stop_seq──▶ none
"""

import math
from collections.abc import Iterable, Sequence
from itertools import chain, compress
from operator import attrgetter
from typing import NamedTuple

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group.holes import holes_of
from miniqueue.core.message.message import ChunkExtent
from miniqueue.core.settings.settings import TopicSettings

_open_chunks, _read_seq, _head_seq = attrgetter("open_chunks"), attrgetter("read_seq"), attrgetter("head_seq")
_gap_starts = attrgetter("gaps.starts")


class Retained:
    """The retained part of one partition.

    Attributes:
      start_seq: finished chunks are kept from here on; all of them up to `stop_seq` exist.
      stop_seq: chunks from here on are not kept; None: no end.
      first: the extent of the chunk at `start_seq`, if it is known.
    """

    __slots__ = ("first", "start_seq", "stop_seq")

    def __init__(self, start_seq: int, stop_seq: int | None = None) -> None:
        self.start_seq = start_seq
        self.stop_seq = stop_seq
        self.first: ChunkExtent | None = None

    def keeps(self, first_seq: int) -> bool:
        """Whether the chunk that begins at `first_seq` stays after all groups have finished it."""
        return self.start_seq <= first_seq and (self.stop_seq is None or first_seq < self.stop_seq)

    def cut(self, start_seq: int, first: ChunkExtent | None) -> None:
        """Set the start, because everything before it was deleted; `first` is the chunk there, if known."""
        self.start_seq = start_seq
        self.first = first

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to keep."""
        return self.stop_seq is not None and self.start_seq >= self.stop_seq


class RetentionLimit(NamedTuple):
    """The limits of retention at one moment; a chunk is over them if it is over one of them.

    Attributes:
      oldest_ms: chunks that were committed at this time or before are over the limit; None: no limit.
      log_bytes: chunks that end at this many bytes of the log or before are over the limit; None: no limit.
      first_seq: chunks that end at this number or before are over the limit; None: no limit.
    """

    oldest_ms: float | None
    log_bytes: int | None
    first_seq: int | None

    def is_over(self, chunk: ChunkExtent) -> bool:
        """Whether a chunk is over one of the limits."""
        if self.oldest_ms is not None and chunk.committed_at_ms <= self.oldest_ms:
            return True
        if self.log_bytes is not None and chunk.log_bytes <= self.log_bytes:
            return True
        return self.first_seq is not None and chunk.end_seq <= self.first_seq


def limit_of(settings: TopicSettings, log_bytes: int, end_seq: int, now_ms: int) -> RetentionLimit:
    """Return the limits of a log that ends at `end_seq` and has `log_bytes` bytes, at a time."""
    seconds, size_bytes, count = settings.retention_seconds, settings.retention_bytes, settings.retention_messages
    return RetentionLimit(
        None if seconds is None else now_ms - seconds * 1000,
        None if size_bytes is None else log_bytes - size_bytes,
        None if count is None else end_seq - count,
    )


def due_at_ms_of(retained: Retained, settings: TopicSettings, log_bytes: int, end_seq: int) -> float:
    """Return when the first chunk that is kept is over its limits if nothing is published; at once if it is not known.

    All groups must have finished all messages of the log.
    """
    first = retained.first
    if retained.start_seq >= end_seq:
        return math.inf
    if first is None or limit_of(settings, log_bytes, end_seq, 0).is_over(first):
        return 0.0
    return math.inf if settings.retention_seconds is None else first.committed_at_ms + settings.retention_seconds * 1000


def floor_of(cursors: Iterable[GroupCursor]) -> int:
    """Return the start of the first chunk that a group has not finished."""
    cursors = [*cursors]
    # There may be thousands of partitions, each with many cursors, and few of them have opened a chunk.
    opened = compress(cursors, map(_open_chunks, cursors))
    floor_seq: int = min(chain(map(_read_seq, cursors), map(_head_seq, opened)))
    return floor_seq


def end_of_holes(cursors: Sequence[GroupCursor]) -> int:
    """Return the end of the last run that all cursors have finished; 0 if there is none."""
    # There may be thousands of partitions, each with many cursors, and gaps are rare.
    if any(map(_gap_starts, cursors)):
        return max((stop for _, stop in holes_of(cursors)), default=0)
    return floor_of(cursors)
