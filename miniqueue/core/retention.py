"""What a partition keeps of messages that all groups are done with, for those who read them again.

    log:    ░░░░░░░ [kept][kept][kept] … [kept] [open] [unread] …         ░ given back
                    ▲ start_seq                 ▲ floor: the first chunk that some group is not done with

Where a topic begins to retain, `start_seq` is behind the last hole of its log, which may be behind the floor. Chunks go
from the front only, whole, and as a rule none behind the floor: what is over the limits goes when every group is done
with it. A topic that is to retain nothing more still has what it kept so far, up to `stop_seq`; that goes from the
front, too, while chunks behind it are deleted as they are finished.

    none ──the settings retain──▶ KEPT ──they do no more──▶ ENDING ──start_seq reaches stop_seq──▶ none
"""

from collections.abc import Iterable
from typing import NamedTuple

from miniqueue.core.chunk_extent import ChunkExtent
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.topic_settings import TopicSettings


class Retained:
    """What one partition keeps.

    Attributes:
      start_seq: finished chunks are kept from here on, and all that is behind is there, up to `stop_seq`.
      stop_seq: chunks from here on are not kept; None while all are.
      first: how far the chunk at `start_seq` reaches, if that is known.
    """

    __slots__ = ("first", "start_seq", "stop_seq")

    def __init__(self, start_seq: int, stop_seq: int | None = None) -> None:
        self.start_seq = start_seq
        self.stop_seq = stop_seq
        self.first: ChunkExtent | None = None

    def keeps(self, first_seq: int) -> bool:
        """Whether the chunk that begins there stays although all groups are done with it."""
        return self.start_seq <= first_seq and (self.stop_seq is None or first_seq < self.stop_seq)

    def cut(self, start_seq: int, first: ChunkExtent | None) -> None:
        """Note that everything before `start_seq` is deleted; `first` is the chunk there, if known."""
        self.start_seq = start_seq
        self.first = first

    @property
    def is_over(self) -> bool:
        """Whether nothing is kept any more."""
        return self.stop_seq is not None and self.start_seq >= self.stop_seq


class RetentionLimit(NamedTuple):
    """What of a log is over its limits now.

    Attributes:
      oldest_ms: chunks that were committed then or earlier are; None for none.
      log_bytes: chunks are whose end has so many bytes of the log, or less, up to it; None for none.
    """

    oldest_ms: float | None
    log_bytes: int | None

    def is_over(self, chunk: ChunkExtent) -> bool:
        """Whether a chunk is over one of the limits."""
        if self.oldest_ms is not None and chunk.committed_at_ms <= self.oldest_ms:
            return True
        return self.log_bytes is not None and chunk.log_bytes <= self.log_bytes


def limit_of(settings: TopicSettings, log_bytes: int, now_ms: int) -> RetentionLimit:
    """Return what is over the limits of a log of so many bytes."""
    seconds, size_bytes = settings.retention_seconds, settings.retention_bytes
    return RetentionLimit(
        None if seconds is None else now_ms - seconds * 1000, None if size_bytes is None else log_bytes - size_bytes
    )


def floor_of(cursors: Iterable[GroupCursor]) -> int:
    """Return where the first chunk begins that some group is not done with."""
    return min(cursor.state.head_seq for cursor in cursors)
