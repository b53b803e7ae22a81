"""The data of a cursor that is stored, and the protocols of the helpers that a cursor calls.

`CursorState` survives restarts, `Changes` is what the next commit writes. The broker implements `ReturnPolicy`, the
topic's rules for returned messages, and `KeyRelease`; `core.keyed` implements `KeyedTaking`.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from miniqueue.core.cursor.lease import ChunkProgress, Lease, Range
from miniqueue.core.message.message import Record

CursorT_contra = TypeVar("CursorT_contra", contravariant=True)


class Changes:
    """Collects what a cursor has changed since the last commit.

    Attributes:
      records: returned messages by range and order; None: the commit deletes the record.
      touched: chunks with newly settled messages, by first sequence number.
      finished: chunks whose messages are all settled.
      gaps: the stops of gaps by their starts; None: the commit deletes the gap.
    """

    __slots__ = ("finished", "gaps", "records", "touched")

    def __init__(self) -> None:
        self.records: dict[tuple[Range, int], Record | None] = {}
        self.touched: dict[int, ChunkProgress] = {}
        self.finished: list[ChunkProgress] = []
        self.gaps: dict[int, int | None] = {}


class CursorState(NamedTuple):
    """The counts of one group in one partition; bitmaps, gaps and records have entries of their own in the store.

    Attributes:
      acked_count: acknowledged messages.
      head_seq: the first chunk that the group still needs.
      serial: counts returns, so that orders are never used twice.
      delayed_count: returned messages in DELAYED, leased or not.
      dropped_count: messages that were dropped.
      gone_bytes: size of acknowledged and dropped payloads; None if an old store does not contain it.
      log_bytes: size of all payloads up to the end of the log at that commit or later; None as `gone_bytes`.
      moved_count: dropped messages that were moved to another topic.
      missed_count: dropped messages that retention removed before the group read them.
      skipped_count: dropped messages that lie before the start of the group, or are for another group.
    """

    acked_count: int = 0
    head_seq: int = 0
    serial: int = 0
    delayed_count: int = 0
    dropped_count: int = 0
    gone_bytes: int | None = 0
    log_bytes: int | None = 0
    moved_count: int = 0
    missed_count: int = 0
    skipped_count: int = 0


class ReturnPolicy(Protocol[CursorT_contra]):
    """Decides where a returned message goes; the counts of the record include this return."""

    def dead_letter(self, cursor: CursorT_contra, record: Record) -> bool:
        """Make the message a dead letter, in the same commit, if it was returned too often; return whether it was."""
        ...

    def due_at_ms(self, record: Record, cause: str) -> int | None:
        """Return when the message is due again, None for immediately; `cause` is the reason of this return."""
        ...


class KeyedTaking(Protocol[CursorT_contra]):
    """Delivers the messages of a cursor by their keys; `keyed_of` returns the reader itself."""

    @property
    def size_bytes(self) -> int:
        """Size of the messages that are kept in memory, in bytes; `evict` frees it."""
        ...

    def take(self, cursor: CursorT_contra, max_count: int, horizon_ms: int) -> Lease | None:
        """Lease the next messages, as `GroupCursor.take` does."""
        ...

    def release(self, lease: Lease) -> None:
        """Count a lease of the cursor as ended; messages that it returns are in the windows, or are put there next."""
        ...

    def evict(self) -> None:
        """Free most of the memory of loaded messages."""
        ...


class KeyRelease(Protocol):
    """Owns the unique keys of a topic."""

    def free(self, partition: int, first_seq: int, attributes: Iterable[bytes]) -> None:
        """Free the keys of the messages from `first_seq` on, with these encoded attributes."""
        ...
