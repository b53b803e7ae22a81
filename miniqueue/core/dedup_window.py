"""The ids under which messages of a topic were published lately: a second publish with one of them is a duplicate.

    add ─▶ new, without a time ─cut─▶ a batch of ids, with the time of its commit ─forget─▶ gone
                └──────────── find: what was published under an id ────────────┘

Each batch is one entry of the store, written with its messages in one commit, and deleted when its time is over. All
that is in the window is in memory, so that a publish need not ask the store; ids whose time is over are found no more,
whether they have been forgotten yet or not.

    order-17                     a dedup id
    order-17?digest=5f0c         the same dedup id, and a digest of what is published under it

The publisher computes the digest, over whatever must be the same in a retry. The window compares digests only: a
publish with a known id and another digest is a mistake, not a duplicate.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from miniqueue.errors import RequestError

#: Separates a dedup id from the digest of what is published under it.
DIGEST_MARK: Final = b"?digest="


class DedupMismatchError(RequestError):
    """The dedup id was used for another content: the digests differ; publish other content under another id."""

    code = "MISMATCH"


class Remembered(NamedTuple):
    """What was published under an id, in one commit.

    Attributes:
      dedup_id: the id, with its digest if it has one.
      message_id: of the first message; those of the others follow it, or are told with it (`message_id.joined_ids`).
      message_count: how many there are.
    """

    dedup_id: bytes
    message_id: bytes
    message_count: int = 1


class Batch:
    """What was published with ids in one commit, when that was, and when its window begins; both None until then."""

    __slots__ = ("committed_at_ms", "entries", "serial", "since_ms")

    def __init__(self, serial: int, committed_at_ms: int | None, entries: list[Remembered]) -> None:
        self.serial = serial
        self.committed_at_ms = self.since_ms = committed_at_ms
        self.entries = entries


class DedupWindow:
    """The ids of one topic.

    Args:
      stored: batches as the store has them, in the order of their times.
    """

    __slots__ = ("_batches", "_by_id", "_new", "_next_serial")

    def __init__(self, stored: Iterable[Batch] = ()) -> None:
        self._batches = deque(stored)
        self._by_id = {_name(entry.dedup_id): (batch, entry) for batch in self._batches for entry in batch.entries}
        self._next_serial = max((batch.serial for batch in self._batches), default=0) + 1
        self._new = self._begin()

    def __len__(self) -> int:
        """Count the ids."""
        return len(self._by_id)

    @property
    def is_changed(self) -> bool:
        """Whether there is something for the next commit."""
        return bool(self._new.entries)

    def find(self, dedup_id: bytes, oldest_ms: float) -> Remembered | None:
        """Return what was published under an id and committed after `oldest_ms`, or is not yet committed.

        Raises DedupMismatchError if both ids have a digest, and these differ.
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
        """Whether the next commit will have what was published under an id that was found."""
        return self._by_id[_name(dedup_id)][0] is self._new

    def add(self, entry: Remembered) -> None:
        """Remember what is published with the next commit."""
        self._new.entries.append(entry)
        self._by_id[_name(entry.dedup_id)] = self._new, entry

    def cut(self, now_ms: int) -> Batch:
        """Return what is new, as the batch of a commit."""
        batch = self._new
        batch.committed_at_ms = batch.since_ms = now_ms
        self._batches.append(batch)
        self._new = self._begin()
        return batch

    def see_time(self, now_ms: int) -> None:
        """Have the windows of batches begin now whose time has not come yet: the clock was set back.

        Else the first of them would keep all behind it, for as long as the clock had been ahead.
        """
        ends = (self._batches[0], self._batches[-1]) if self._batches else ()  # a start finds those ahead at the end
        if any((batch.since_ms or 0) > now_ms for batch in ends):
            for batch in self._batches:
                batch.since_ms = min(batch.since_ms or 0, now_ms)

    def forget(self, oldest_ms: float, max_count: int) -> list[Batch]:
        """Forget the first batches that were committed by `oldest_ms`, of `max_count` ids or a few more; return them.

        Where the clock was set back a batch stays until those before it go.
        """
        forgotten: list[Batch] = []
        while max_count > 0 and self._batches and (self._batches[0].since_ms or 0) <= oldest_ms:
            batch = self._batches.popleft()
            for entry in batch.entries:
                name = _name(entry.dedup_id)
                # Else it was published again since, or an older version stored ids that differ only in the digest.
                if self._by_id.get(name, (None,))[0] is batch:
                    del self._by_id[name]
            max_count -= len(batch.entries)
            forgotten.append(batch)
        return forgotten

    def _begin(self) -> Batch:
        batch = Batch(self._next_serial, None, [])
        self._next_serial += 1
        return batch


def _name(dedup_id: bytes) -> bytes:
    """Return an id without its digest."""
    return dedup_id.partition(DIGEST_MARK)[0]
