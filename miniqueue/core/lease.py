"""Leases: what a consumer was handed, and where it came from."""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from itertools import accumulate, islice, repeat, takewhile
from itertools import count as count_from
from typing import Any, Final

from miniqueue.core.message import NEVER_RETURNED, Chunk, Counts, Record


class Range(IntEnum):
    """Where the messages of a group wait, in the order in which they are looked at; the values are stored."""

    FRONT = 0  # returned to the front: newest return first
    DELAYED = 1  # returned with a delay: by due time
    BACK = 2  # returned to the back: by the log's tail at that time
    LOG = 3  # never handed out, or handed out and not settled before a restart


#: Where one is looked up for each message: a member takes ten times as long as a name.
FRONT: Final = Range.FRONT
DELAYED: Final = Range.DELAYED
BACK: Final = Range.BACK
LOG: Final = Range.LOG

#: Makes a record of what it has, without a step in Python.
_record: Final[Callable[[tuple[Any, ...]], Record]] = partial(tuple.__new__, Record)


class ChunkProgress:
    """How far one group is with one chunk.

    `settled` has bit i set when message i needs no more work here: acknowledged, or moved to another range.
    """

    __slots__ = ("chunk", "is_stored", "runs", "settled", "unsettled_count")

    def __init__(self, chunk: Chunk, settled: int = 0) -> None:
        self.chunk = chunk
        self.settled = settled
        self.unsettled_count = len(chunk.payloads) - settled.bit_count()
        self.is_stored = settled != 0
        self.runs = unset_runs(settled, len(chunk.payloads))

    def take(self, max_count: int) -> tuple[int, int]:
        """Hand out the next run of at most `max_count` messages, as (start, stop) indexes in the chunk."""
        start, stop = self.runs.pop()
        if stop - start > max_count:
            self.runs.append((start + max_count, stop))
            stop = start + max_count
        return start, stop

    def count_of(self, size_bytes: int) -> int:
        """Return how many messages of the next run are `size_bytes` long together; one more than all when too few."""
        start, stop = self.runs[-1]
        sums = accumulate(islice(self.chunk.sizes(), start, stop), initial=0)
        return len(list(takewhile(size_bytes.__gt__, sums)))

    def settle(self, start: int, count: int) -> None:
        """Mark `count` messages from index `start` on."""
        self.settled |= ((1 << count) - 1) << start
        self.unsettled_count -= count


def unset_runs(bits: int, size: int) -> list[tuple[int, int]]:
    """Return the runs of zeros in the lowest `size` bits as (start, stop), last run first."""
    runs: list[tuple[int, int]] = []
    start = 0
    while start < size:
        skipped = _trailing_ones(bits >> start)
        start += skipped
        if start >= size:
            break
        rest = bits >> start
        stop = min(size, start + (rest & -rest).bit_length() - 1) if rest else size
        runs.append((start, stop))
        start = stop
    runs.reverse()
    return runs


def _trailing_ones(bits: int) -> int:
    return (~bits & (bits + 1)).bit_length() - 1


class Lease:
    """The right to some messages, until it is settled: once, as a whole, by the cursor that gave it.

    Every delivery of a message has a receipt of its own; those of a lease are `count` numbers from `receipt` on.
    `payloads` are the messages in the order of their receipts, `attributes` those of each, encoded, or None when no
    message has any; together they are `size_bytes` long. `counts` tell how often the messages came back before.
    """

    __slots__ = ("attributes", "count", "counts", "payloads", "receipt", "size_bytes")

    attributes: list[bytes] | None
    count: int
    counts: Counts
    payloads: list[bytes]
    receipt: int
    size_bytes: int

    @property
    def first_seq(self) -> int:
        """The sequence number of the first message; those of the others follow it."""
        raise NotImplementedError

    @property
    def published_at_ms(self) -> int:
        """When the messages were published."""
        raise NotImplementedError

    def attributes_of(self, receipt: int) -> bytes | None:
        """Return the attributes of the message with a receipt, encoded; None when it is none of these."""
        if not self.receipt <= receipt < self.receipt + self.count:
            return None
        return b"" if self.attributes is None else self.attributes[receipt - self.receipt]

    def records(self) -> list[Record]:
        """Return the messages as records."""
        raise NotImplementedError

    def returned(self, cause: str) -> list[Record]:
        """Return the messages as records that have come back once more, for `cause`, which is counted."""
        raise NotImplementedError


class ChunkLease(Lease):
    """A run of messages of one chunk, from index `start` on."""

    __slots__ = ("progress", "start")

    def __init__(self, receipt: int, progress: ChunkProgress, start: int, count: int) -> None:
        chunk, stop = progress.chunk, start + count
        self.receipt = receipt
        self.payloads = payloads = chunk.payloads[start:stop]
        self.attributes = None if chunk.attributes is None else chunk.attributes[start:stop]
        self.count = count
        self.size_bytes = sum(map(len, payloads))
        if self.attributes is not None:
            self.size_bytes += sum(map(len, self.attributes))
        self.counts = NEVER_RETURNED
        self.progress = progress
        self.start = start

    @property
    def first_seq(self) -> int:
        """The sequence number of the first message."""
        return self.progress.chunk.first_seq + self.start

    @property
    def published_at_ms(self) -> int:
        """When the chunk was committed."""
        return self.progress.chunk.committed_at_ms

    def records(self) -> list[Record]:
        """Return the messages as records."""
        return self._records(self.counts)

    def returned(self, cause: str) -> list[Record]:
        """Return the messages as records that have come back for `cause`."""
        return self._records(self.counts.plus(cause))

    def _records(self, counts: Counts) -> list[Record]:
        alike = repeat(self.published_at_ms), repeat(counts)
        attributes = repeat(b"") if self.attributes is None else self.attributes
        return list(map(_record, zip(count_from(self.first_seq), *alike, self.payloads, attributes)))

    def cut(self, receipt: int, end_receipt: int) -> "tuple[Lease, list[Lease]]":
        """Return a lease of the messages from `receipt` to before `end_receipt`, and the leases of the others."""
        end = self.receipt + self.count
        others: list[Lease] = [self.part(a, b) for a, b in ((self.receipt, receipt), (end_receipt, end)) if a < b]
        return self.part(receipt, end_receipt), others

    def part(self, receipt: int, end_receipt: int) -> "ChunkLease":
        """Return a lease of the messages from `receipt` to before `end_receipt`, which must not be none."""
        return ChunkLease(receipt, self.progress, self.start + receipt - self.receipt, end_receipt - receipt)


class RecordLease(Lease):
    """One message that came back before, from its `place` and `order` there."""

    __slots__ = ("order", "place", "record")

    def __init__(self, receipt: int, record: Record, place: Range, order: int) -> None:
        _, _, self.counts, payload, attributes = record
        self.receipt = receipt
        self.payloads = [payload]
        self.attributes = [attributes] if attributes else None
        self.count = 1
        self.size_bytes = len(payload) + len(attributes)
        self.record = record
        self.place = place
        self.order = order

    @property
    def first_seq(self) -> int:
        """The message's sequence number."""
        return self.record.seq

    @property
    def published_at_ms(self) -> int:
        """When the message was published."""
        return self.record.published_at_ms

    def records(self) -> list[Record]:
        """Return the message as a record."""
        return [self.record]

    def returned(self, cause: str) -> list[Record]:
        """Return the message as a record that has come back once more, for `cause`."""
        seq, published_at_ms, counts, payload, attributes = self.record
        return [_record((seq, published_at_ms, counts.plus(cause), payload, attributes))]
