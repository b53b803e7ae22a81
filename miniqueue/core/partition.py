"""One partition: an ordered log, and the groups that read it."""

from itertools import pairwise

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import ChunkProgress
from miniqueue.core.message import Chunk

#: The group that plain SUBSCRIBE reads with.
DEFAULT_GROUP = 0

# Small enough that a bitmap is cheap to rewrite with every commit, and one read is not much more than wanted.
MAX_CHUNK_MESSAGES = 8192
MAX_CHUNK_BYTES = 1 << 20


class Partition:
    """A log that grows by chunks, one commit at a time.

    Appended messages wait in memory until `cut`, and are readable from `commit` on. `next_seq` counts them from
    the moment of `append`, so every message knows its sequence number before it is durable, and `log_bytes` their
    payloads.
    """

    __slots__ = ("_appended", "consumed_bytes", "cursors", "log_bytes", "next_seq")

    def __init__(self, next_seq: int, cursors: dict[int, GroupCursor], log_bytes: int = 0) -> None:
        self.next_seq = next_seq
        self.log_bytes = log_bytes
        self.cursors = cursors
        self.consumed_bytes = 0  # of chunks deleted since disk space was last given back
        self._appended: list[bytes] = []

    def append(self, payloads: list[bytes], size_bytes: int) -> int:
        """Add messages, `size_bytes` together, to the next commit; return the sequence number of the first."""
        first_seq = self.next_seq
        self.next_seq = first_seq + len(payloads)
        self.log_bytes += size_bytes
        self._appended += payloads
        return first_seq

    def cut(self, now_ms: int) -> list[Chunk]:
        """Return what has been appended since the last call, as the chunks of one commit."""
        payloads, self._appended = self._appended, []
        first_seq = self.next_seq - len(payloads)
        stops = _chunk_stops(payloads)
        chunks = [Chunk(first_seq + a, now_ms, payloads[a:b]) for a, b in pairwise([0, *stops])]
        log_bytes = self.log_bytes
        for chunk in reversed(chunks):
            chunk.log_bytes = log_bytes
            log_bytes -= chunk.payload_bytes
        return chunks

    def commit(self, chunks: list[Chunk]) -> None:
        """Make chunks readable; they are durable now."""
        for chunk in chunks:
            for cursor in self.cursors.values():
                cursor.append(chunk)

    def is_unneeded(self, progress: ChunkProgress) -> bool:
        """Whether every group is done with a chunk that one of them has just finished."""
        return all(cursor.has_finished(progress.chunk.first_seq) for cursor in self.cursors.values())


def _chunk_stops(payloads: list[bytes]) -> list[int]:
    """Return where to cut so that no chunk is over its limits, unless it is a single message."""
    if len(payloads) <= MAX_CHUNK_MESSAGES and sum(map(len, payloads)) <= MAX_CHUNK_BYTES:
        return [len(payloads)] if payloads else []
    stops, start, size_bytes = [], 0, 0
    for i, payload in enumerate(payloads):
        size_bytes += len(payload)
        if i > start and (size_bytes > MAX_CHUNK_BYTES or i - start >= MAX_CHUNK_MESSAGES):
            stops.append(i)
            start, size_bytes = i, len(payload)
    return [*stops, len(payloads)]
