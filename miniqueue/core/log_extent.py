"""How far a chunk of a log reaches, without its messages; and how far the log itself does.

    log:    ░░░░░░░░░░ [chunk][chunk] … [chunk][chunk]            ░ given back
                       ▲ earliest_seq                ▲ end_seq

Nothing of it is read from the store.
"""

from typing import NamedTuple

from miniqueue.core.partition import Partition


class ChunkExtent(NamedTuple):
    """What a chunk says of itself.

    Attributes:
      first_seq: the sequence number of its first message; `end_seq` the one after its last.
      committed_at_ms: when its messages were committed, since 1970.
      content_bytes: of its payloads and attributes.
      log_bytes: of those of the whole log up to its end; 0 where an old store does not tell.
    """

    first_seq: int
    end_seq: int
    committed_at_ms: int
    content_bytes: int
    log_bytes: int


class LogBounds(NamedTuple):
    """Which messages of a partition can be read.

    Attributes:
      partition: its number.
      earliest_seq: no message before this one is in the store.
      end_seq: behind the last message that is committed.
    """

    partition: int
    earliest_seq: int
    end_seq: int


def bounds_of(partition: Partition) -> LogBounds:
    """Return what can be read of a partition; what some group has settled behind `earliest_seq` may be gone, too."""
    cursors = partition.cursors.values()
    end_seq = max(cursor.tail_seq for cursor in cursors)
    return LogBounds(partition.number, min(cursor.state.head_seq for cursor in cursors), end_seq)
