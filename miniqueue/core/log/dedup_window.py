"""Dedup ids: the ids of recently published messages; a second publish with one of them is a duplicate.

    add ─▶ new, without a time ─cut─▶ a batch of ids, with the time of its commit ─forget─▶ deleted
                └──────────── find: what was published with an id ─────────────┘

Each batch is one entry of the store. It is written with its messages in one commit, and deleted when its window has
elapsed. The whole window is in memory, so that a publish need not read the store. `find` ignores ids whose window has
elapsed, forgotten or not.

    order-17                     a dedup id
    order-17?digest=5f0c         the same dedup id, and a digest of the content

The publisher computes the digest, of whatever must be equal in a retry. The window only compares digests: a publish
with a known id and another digest is an error, not a duplicate.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from miniqueue.core.options.publish import DIGEST_MARK, without_digest
from miniqueue.errors import DedupMismatchError


class Remembered(NamedTuple):
    """The messages that were published with a dedup id, in one commit.

    Attributes:
      dedup_id: the dedup id, with its digest if it has one.
      message_id: the id of the first message; the other ids follow it, or are contained in it (`ids.joined_ids`).
      message_count: the number of messages.
    """

    dedup_id: bytes
    message_id: bytes
    message_count: int = 1


class Batch:
    """The dedup ids of one commit.

    Attributes:
      serial: the number of the batch, under which it is stored.
      committed_at_ms: the time of the commit; None before it.
      since_ms: the start of its window; the same time, unless the clock was set back.
      entries: the ids.
    """

    __slots__ = ("committed_at_ms", "entries", "serial", "since_ms")

    def __init__(self, serial: int, committed_at_ms: int | None, entries: list[Remembered]) -> None:
        self.serial = serial
        self.committed_at_ms = self.since_ms = committed_at_ms
        self.entries = entries


class DedupWindow:
    """The dedup ids of one topic.

    Args:
      stored: the batches of the store, in the order of their times.
    """

    __slots__ = ("_batches", "_by_id", "_new", "_next_serial")

    def __init__(self, stored: Iterable[Batch] = ()) -> None:
        self._batches = deque(stored)
        self._by_id = {
            without_digest(entry.dedup_id): (batch, entry) for batch in self._batches for entry in batch.entries
        }
        self._next_serial = max((batch.serial for batch in self._batches), default=0) + 1
        self._new = self._begin()

    def __len__(self) -> int:
        """Count the ids."""
        return len(self._by_id)

    @property
    def is_changed(self) -> bool:
        """Whether the next commit has new ids to write."""
        return bool(self._new.entries)

    def find(self, dedup_id: bytes, oldest_ms: float) -> Remembered | None:
        """Return what was published with an id and was committed after `oldest_ms`, or is not committed yet.

        Raises DedupMismatchError if both ids have a digest, and the digests differ.
        """
        name, _, digest = dedup_id.partition(DIGEST_MARK)
        batch, entry = self._by_id.get(name, (None, None))
        if entry is None or (batch is not None and batch.since_ms is not None and batch.since_ms <= oldest_ms):
            return None
        known_digest = entry.dedup_id.partition(DIGEST_MARK)[2]
        if digest and known_digest and digest != known_digest:
            raise DedupMismatchError
        return entry

    def is_new(self, dedup_id: bytes) -> bool:
        """Whether the entry of an id that `find` returned is not committed yet."""
        return self._by_id[without_digest(dedup_id)][0] is self._new

    def add(self, entry: Remembered) -> None:
        """Add the id of a publish that the next commit contains."""
        self._new.entries.append(entry)
        self._by_id[without_digest(entry.dedup_id)] = self._new, entry

    def cut(self, now_ms: int) -> Batch:
        """Return the new ids as the batch of a commit."""
        batch = self._new
        batch.committed_at_ms = batch.since_ms = now_ms
        self._batches.append(batch)
        self._new = self._begin()
        return batch

    def see_time(self, now_ms: int) -> None:
        """Start the windows of batches with a future time now, because the clock was set back.

        Otherwise the first of them would keep all later ones for as long as the clock had been ahead.
        """
        # The two ends are enough: after a startup, batches with a future time are the last ones.
        ends = (self._batches[0], self._batches[-1]) if self._batches else ()
        if any((batch.since_ms or 0) > now_ms for batch in ends):
            for batch in self._batches:
                batch.since_ms = min(batch.since_ms or 0, now_ms)

    def forget(self, oldest_ms: float, max_count: int) -> list[Batch]:
        """Forget the first batches that were committed by `oldest_ms`, and return them.

        Stops after the batch with which they have `max_count` ids or more. If the clock was set back, a batch stays
        until those before it are forgotten.
        """
        forgotten: list[Batch] = []
        while max_count > 0 and self._batches and (self._batches[0].since_ms or 0) <= oldest_ms:
            batch = self._batches.popleft()
            for entry in batch.entries:
                name = without_digest(entry.dedup_id)
                # Otherwise the id was used again later, or an older version stored ids that differ only in the digest.
                if self._by_id.get(name, (None,))[0] is batch:
                    del self._by_id[name]
            max_count -= len(batch.entries)
            forgotten.append(batch)
        return forgotten

    def _begin(self) -> Batch:
        batch = Batch(self._next_serial, None, [])
        self._next_serial += 1
        return batch
