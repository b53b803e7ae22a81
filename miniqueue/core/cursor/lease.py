"""What one group has taken and settled: ranges, the progress in chunks, gaps in the log, and leases.

Gaps are runs of the log that a group has finished while a chunk before them is still open. A chunk is
deleted as soon as it is finished, even if an earlier one is open. It leaves a gap. The gap is stored, because a restart
reads from the oldest open chunk on, and could not distinguish an unrecorded gap from damage.

    log:     [open] ░░finished░░ [open] ░░finished░░░░░░ [unread] …      head_seq: the oldest open chunk
    gaps:           start ─▶ stop       start ─▶ stop

Adjacent gaps are merged, and none lies before head_seq, so there are at most as many gaps as open chunks.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from itertools import accumulate, islice, repeat, takewhile
from itertools import count as count_from
from typing import Any, Final

from miniqueue.core.message.attributes import with_failure
from miniqueue.core.message.message import NEVER_RETURNED, Chunk, Counts, Record


class Range(IntEnum):
    """The ranges in which messages of a group wait, in the order in which `take` inspects them; values are stored."""

    FRONT = 0  # returned to the front: newest return first
    DELAYED = 1  # returned with a delay: by due time
    BACK = 2  # returned to the back: by the log's tail at that time
    LOG = 3  # never leased, or leased and not settled before a restart


#: Used where a range is needed for each message: looking up a member of an enum takes ten times as long as a name.
FRONT: Final = Range.FRONT
DELAYED: Final = Range.DELAYED
BACK: Final = Range.BACK
LOG: Final = Range.LOG
#: The ranges of returned messages.
RETURN_RANGES: Final = (FRONT, DELAYED, BACK)

#: Makes a record of a tuple of its fields, without running Python code.
_record: Final[Callable[[tuple[Any, ...]], Record]] = partial(tuple.__new__, Record)


class ChunkProgress:
    """How much of one chunk one group has taken and settled.

    Attributes:
      chunk: the chunk.
      settled: bit i is set if message i needs no more work here: acknowledged, or moved to another range.
      unsettled_count: the number of bits that are not set.
      is_stored: whether the store has a bitmap of the chunk.
      runs: (start, stop) indexes of the messages that were not taken, the last run first.
    """

    __slots__ = ("chunk", "is_stored", "runs", "settled", "unsettled_count")

    def __init__(self, chunk: Chunk, settled: int = 0) -> None:
        self.chunk = chunk
        self.settled = settled
        self.unsettled_count = len(chunk.payloads) - settled.bit_count()
        self.is_stored = settled != 0
        self.runs = unset_runs(settled, len(chunk.payloads))

    def take(self, max_count: int) -> tuple[int, int]:
        """Take the next run of at most `max_count` messages; return its (start, stop) indexes in the chunk."""
        start, stop = self.runs.pop()
        if stop - start > max_count:
            self.runs.append((start + max_count, stop))
            stop = start + max_count
        return start, stop

    def count_of(self, size_bytes: int) -> int:
        """Return how many messages of the next run have `size_bytes` together; if all have less, one more than all."""
        start, stop = self.runs[-1]
        sums = accumulate(islice(self.chunk.sizes(), start, stop), initial=0)
        return len(list(takewhile(size_bytes.__gt__, sums)))

    def remove(self, start: int, stop: int) -> None:
        """Remove the messages from index `start` to before `stop`, of one run, as if they had been taken."""
        index = bisect_left(self.runs, -start, key=lambda run: -run[0])  # the last run that begins at `start` or before
        first, end = self.runs[index]
        self.runs[index : index + 1] = [part for part in ((stop, end), (first, start)) if part[0] < part[1]]

    def settle(self, start: int, count: int) -> None:
        """Mark `count` messages from index `start` on as settled."""
        self.settled |= ((1 << count) - 1) << start
        self.unsettled_count -= count


def unset_runs(bits: int, size: int) -> list[tuple[int, int]]:
    """Return the runs of zeros in the lowest `size` bits as (start, stop), the last run first."""
    runs: list[tuple[int, int]] = []
    start = 0
    while start < size:
        skipped = trailing_ones(bits >> start)
        start += skipped
        if start >= size:
            break
        rest = bits >> start
        stop = min(size, start + (rest & -rest).bit_length() - 1) if rest else size
        runs.append((start, stop))
        start = stop
    runs.reverse()
    return runs


def trailing_ones(bits: int) -> int:
    """Return the number of ones below the lowest zero."""
    return (~bits & (bits + 1)).bit_length() - 1


class Gaps:
    """The gaps of one group in one partition.

    Args:
      stops: the sequence number after the last message of each gap, by the number of its first message.

    Attributes:
      starts: the numbers of the first messages, in ascending order.
    """

    __slots__ = ("_starts", "_stops", "starts")

    def __init__(self, stops: dict[int, int]) -> None:
        self._stops = stops
        self._starts = {stop: start for start, stop in stops.items()}
        self.starts = sorted(stops)

    def __len__(self) -> int:
        return len(self._stops)

    def end_of(self, seq: int) -> int:
        """Return the end of the gap that begins at `seq`, or `seq` if none begins there."""
        return self._stops.get(seq, seq)

    def covers(self, seq: int) -> bool:
        """Whether `seq` lies in a gap."""
        index = bisect_right(self.starts, seq) - 1
        return index >= 0 and seq < self._stops[self.starts[index]]

    def runs(self) -> list[tuple[int, int]]:
        """Return the gaps, the first one first."""
        return [(start, self._stops[start]) for start in self.starts]

    def add(self, start: int, stop: int, head_seq: int) -> dict[int, int | None]:
        """Add the messages from `start` to before `stop`, and remove every gap that ends before `head_seq`.

        Returns:
          The entries to write: the stop of a gap by its start; None deletes the entry.
        """
        changes: dict[int, int | None] = {}
        if stop in self._stops:
            changes[stop] = None
            stop = self._remove(stop)
        start = self._starts.pop(start, start)
        if stop > head_seq:
            if start not in self._stops:
                insort(self.starts, start)
            self._stops[start] = changes[start] = stop
            self._starts[stop] = start
            return changes
        self._starts.pop(stop, None)
        if start in self._stops:
            self._remove(start)
            changes[start] = None
        return changes

    def _remove(self, start: int) -> int:
        """Remove the gap that begins at `start`; return its stop."""
        del self.starts[bisect_left(self.starts, start)]
        return self._stops.pop(start)


class Lease:
    """Messages that one consumer holds until it settles them; the cursor settles a lease once, as a whole.

    Attributes:
      receipt: the receipt of the first message. Each delivery of a message has its own receipt; a lease has `count`
        consecutive ones.
      count: the number of messages.
      payloads: the payloads of the messages, in the order of their receipts.
      attributes: the encoded attributes of each message, as consumers see them; None if no message has any.
      size_bytes: the size of payloads and attributes, as they were published.
      held_bytes: the size of what a consumer holds: also of the reason of a failure.
      counts: how often the messages were returned before.
    """

    __slots__ = ("attributes", "count", "counts", "held_bytes", "payloads", "receipt", "size_bytes")

    attributes: list[bytes] | None
    count: int
    counts: Counts
    held_bytes: int
    payloads: list[bytes]
    receipt: int
    size_bytes: int

    @property
    def first_seq(self) -> int:
        """The sequence number of the first message; the other messages have the following numbers."""
        raise NotImplementedError

    @property
    def published_at_ms(self) -> int:
        """When the messages were published."""
        raise NotImplementedError

    def attributes_of(self, receipt: int) -> bytes | None:
        """Return the encoded attributes of the message with a receipt; None if the lease does not contain it."""
        if not self.receipt <= receipt < self.receipt + self.count:
            return None
        return b"" if self.attributes is None else self.attributes[receipt - self.receipt]

    def records(self) -> list[Record]:
        """Return the messages as records."""
        raise NotImplementedError

    def returned(self, cause: str, failure: bytes = b"") -> list[Record]:
        """Return the messages as records, with one more return for `cause` in their counts.

        `failure` is the reason of the return; if there is none, that of an earlier return stays.
        """
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
        size_bytes = sum(map(len, payloads))
        if self.attributes is not None:
            size_bytes += sum(map(len, self.attributes))
        self.size_bytes = self.held_bytes = size_bytes
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
        return self._records(self.counts, b"")

    def returned(self, cause: str, failure: bytes = b"") -> list[Record]:
        """Return the messages as records, with one return for `cause` in their counts."""
        return self._records(self.counts.plus(cause), failure)

    def _records(self, counts: Counts, failure: bytes) -> list[Record]:
        shared = repeat(self.published_at_ms), repeat(counts)
        attributes = repeat(b"") if self.attributes is None else self.attributes
        return list(map(_record, zip(count_from(self.first_seq), *shared, self.payloads, attributes, repeat(failure))))

    def cut(self, receipt: int, end_receipt: int) -> "tuple[Lease, list[Lease]]":
        """Return a lease of the messages from `receipt` to before `end_receipt`, and the leases of the others."""
        end = self.receipt + self.count
        others: list[Lease] = [self.part(a, b) for a, b in ((self.receipt, receipt), (end_receipt, end)) if a < b]
        return self.part(receipt, end_receipt), others

    def part(self, receipt: int, end_receipt: int) -> "ChunkLease":
        """Return a lease of the messages from `receipt` to before `end_receipt`, at least one."""
        return ChunkLease(receipt, self.progress, self.start + receipt - self.receipt, end_receipt - receipt)


class RecordLease(Lease):
    """A lease of one returned message, from position `order` of `range_`."""

    __slots__ = ("order", "range_", "record")

    def __init__(self, receipt: int, record: Record, range_: Range, order: int) -> None:
        _, _, self.counts, payload, attributes, failure = record
        self.receipt = receipt
        self.payloads = [payload]
        self.size_bytes = self.held_bytes = len(payload) + len(attributes)
        if failure:
            attributes = with_failure(attributes, failure)
            self.held_bytes = len(payload) + len(attributes)
        self.attributes = [attributes] if attributes else None
        self.count = 1
        self.record = record
        self.range_ = range_
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

    def returned(self, cause: str, failure: bytes = b"") -> list[Record]:
        """Return the message as a record, with one more return for `cause` in its counts."""
        seq, published_at_ms, counts, payload, attributes, earlier = self.record
        return [_record((seq, published_at_ms, counts.plus(cause), payload, attributes, failure or earlier))]
