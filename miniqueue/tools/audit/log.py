"""Checks the log of one partition as one group has it: chunks in key order, against bitmaps, gaps, cursor, and head.

    head_seq ─▶ [chunk][chunk]░░gap░░[chunk]   [chunk] ◀─ next_seq      ░ settled and deleted
                 ▲▲ ▲ bitmap                 ▲ missing

From the position of the cursor to the head, every message is in one chunk or in one gap. A gap begins where a chunk
ends. A chunk before the cursor, or with every bit set, must have been deleted by the commit that settled it. If the
topic retains settled chunks, those from the start of the retained range on can exist before the cursor and in gaps.
"""

from bisect import bisect_right
from operator import attrgetter
from typing import NamedTuple

from miniqueue.core.message.message import Chunk
from miniqueue.storage.format import keys
from miniqueue.tools.audit.problems import Problems


class PartlySettled(NamedTuple):
    """A chunk some of whose messages are settled."""

    first_seq: int
    stop_seq: int
    bits: int


class LogAudit:
    """Check of a partition's log as one group has it.

    Args:
      position: topic id, partition number, and group id.
      problems: collects the findings.
      next_seq: next sequence number in the partition's head; None if unknown.
      head_seq: position of the cursor; None if unknown, and then the log can begin anywhere.
      kept: range of settled chunks that are retained, a stop of None meaning no end; None if none are retained.
      bitmaps: settled bits by first sequence number, None for bits that cannot be read; consumed by the check.
      gaps: stop of each gap by its start, None for a stop that cannot be read; consumed by the check.

    Attributes:
      next_seq: sequence number after the last message, or that of the head if it is larger; None if unknown.
      log_bytes: bytes of the log according to the last chunk; 0 if there is no chunk, or an old store wrote it.
      is_readable: whether every chunk and bitmap has been decoded, so that the counts are right.
      waiting_bytes: size of the payloads and attributes of unsettled messages.
    """

    def __init__(
        self,
        position: tuple[int, int, int],
        problems: Problems,
        *,
        next_seq: int | None,
        head_seq: int | None,
        kept: tuple[int, int | None] | None = None,
        bitmaps: dict[int, int | None],
        gaps: dict[int, int | None],
    ) -> None:
        self.chunk_count = self.message_count = self.settled_count = self.waiting_bytes = 0
        self.log_bytes = 0
        self.is_readable = True
        self._position = position
        self._problems = problems
        self.next_seq = next_seq
        self._head_seq = head_seq
        self._kept = kept
        self._expected = head_seq  # start of the next chunk; None: unknown
        self._bitmaps = bitmaps
        self._gaps = gaps
        self._partly_settled: list[PartlySettled] = []
        self._run_starts: list[int] = []  # runs of adjacent chunks
        self._run_stops: list[int] = []

    @property
    def waiting_count(self) -> int:
        """Number of unsettled messages in the log."""
        return self.message_count - self.settled_count

    def take(self, key: bytes, chunk: Chunk) -> None:
        """Check the next chunk."""
        first_seq, count = chunk.first_seq, len(chunk.payloads)
        self.chunk_count += 1
        self.message_count += count
        for cause in self._misplacements(chunk):
            self._problems.add(cause, key)
        bits = self._all_bits(first_seq, count) if self._is_kept(chunk) else self._take_bits(first_seq, count)
        self.settled_count += bits.bit_count()
        self.waiting_bytes += sum(size for i, size in enumerate(chunk.sizes()) if not bits >> i & 1)
        self._remember(first_seq, chunk.end_seq)
        self.log_bytes = chunk.log_bytes
        if self.next_seq is not None:
            self.next_seq = max(self.next_seq, chunk.end_seq)
        if self._expected is None or self._expected < chunk.end_seq:
            self._expected = self._gaps.pop(chunk.end_seq, chunk.end_seq)

    def skip(self, first_seq: int) -> None:
        """Skip a chunk that cannot be read; its problem has been reported."""
        self.chunk_count += 1
        self.is_readable = False
        self._bitmaps.pop(first_seq, None)
        self._expected = None

    def finish(self) -> None:
        """Report bitmaps, gaps, and messages that belong to no chunk, after the last chunk."""
        if self._expected is not None and self.next_seq is not None and self._expected < self.next_seq:
            self._problems.add(_missing(self._expected, self.next_seq))
        for first_seq in self._bitmaps:
            self._problems.add("no chunk begins there", self._bitmap_key(first_seq))
        if self.is_readable:  # otherwise an unreadable chunk may end there
            for start in self._gaps:
                self._problems.add("no chunk ends there", keys.gap(*self._position, start))

    def has_waiting(self, seq: int) -> bool:
        """Whether the message is in a chunk and unsettled; call it after the last chunk."""
        run = bisect_right(self._run_starts, seq) - 1
        if run < 0 or seq >= self._run_stops[run]:
            return False
        index = bisect_right(self._partly_settled, seq, key=attrgetter("first_seq")) - 1
        if index < 0:
            return True
        chunk = self._partly_settled[index]
        return seq >= chunk.stop_seq or not chunk.bits >> (seq - chunk.first_seq) & 1

    def _is_kept(self, chunk: Chunk) -> bool:
        """Whether the chunk is settled and retained."""
        if self._kept is None or self._expected is None or chunk.first_seq in self._bitmaps:
            return False
        start_seq, stop_seq = self._kept
        is_in_range = start_seq <= chunk.first_seq and (stop_seq is None or chunk.first_seq < stop_seq)
        return is_in_range and chunk.end_seq <= self._expected

    def _misplacements(self, chunk: Chunk) -> list[str]:
        first_seq, expected = chunk.first_seq, self._expected
        causes: list[str] = []
        if self._is_kept(chunk):
            return causes if chunk.payloads else ["has no messages"]
        if not chunk.payloads:
            causes.append("has no messages")
        if self._head_seq is not None and first_seq < self._head_seq:
            causes.append(f"all messages before message {self._head_seq} are settled, but the chunk was not deleted")
        elif expected is not None and first_seq < expected:
            causes.append(f"begins before message {expected}, inside the previous chunk or gap")
        elif expected is not None and first_seq > expected:
            causes.append(_missing(expected, first_seq))
        if self.next_seq is not None and first_seq < self.next_seq < chunk.end_seq:
            causes.append(f"ends with message {chunk.end_seq - 1}, but the next message is {self.next_seq}")
        return causes

    def _all_bits(self, first_seq: int, count: int) -> int:
        bits = (1 << count) - 1
        self._partly_settled.append(PartlySettled(first_seq, first_seq + count, bits))
        return bits

    def _take_bits(self, first_seq: int, count: int) -> int:
        bits = self._bitmaps.pop(first_seq, 0)
        if bits is None:
            self.is_readable = False
            bits = (1 << count) - 1  # otherwise a record of one of its messages would count as a second copy
        elif bits >> count:
            self._problems.add(f"has bits beyond the {count} messages of its chunk", self._bitmap_key(first_seq))
            bits &= (1 << count) - 1
        elif bits and bits.bit_count() == count:
            cause = "every message is settled, but the chunk was not deleted"
            self._problems.add(cause, self._bitmap_key(first_seq))
        if bits:
            self._partly_settled.append(PartlySettled(first_seq, first_seq + count, bits))
        return bits

    def _bitmap_key(self, first_seq: int) -> bytes:
        return keys.bitmap(*self._position, first_seq)

    def _remember(self, first_seq: int, stop_seq: int) -> None:
        if self._run_stops and self._run_stops[-1] == first_seq:
            self._run_stops[-1] = stop_seq
        else:
            self._run_starts.append(first_seq)
            self._run_stops.append(stop_seq)


def _missing(start: int, stop: int) -> str:
    return f"messages {start} to {stop - 1} are missing from the log"
