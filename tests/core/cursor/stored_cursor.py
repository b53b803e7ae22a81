"""A cursor with what a store would hold for it, so that tests can restart it."""

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease, Range
from miniqueue.core.cursor.state import Changes, CursorState
from miniqueue.core.message.message import Chunk, Record


class StoredCursor:
    """Applies a cursor's changes to dicts, as a commit does, and loads whatever the cursor is blocked on."""

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}
        self.records: dict[tuple[Range, int], Record] = {}
        self.bitmaps: dict[int, int] = {}
        self.gaps: dict[int, int] = {}
        self.state = CursorState()
        self.tail_seq = 0
        self.log_bytes = 0
        self.cursor = GroupCursor(self.state, 0, {}, is_new=True)

    def publish(self, *payloads: bytes) -> None:
        """Commit one chunk."""
        self.commit()
        self.log_bytes += sum(map(len, payloads))
        chunk = Chunk(self.tail_seq, 1, list(payloads), self.log_bytes)
        self.chunks[chunk.first_seq] = chunk
        self.tail_seq = chunk.end_seq
        self.cursor.append(chunk)

    def commit(self) -> None:
        """Store what changed."""
        changes, self.cursor.changes = self.cursor.changes, Changes()
        assert self.cursor.is_changed or not (changes.records or changes.touched or changes.finished)
        self.cursor.is_changed = False
        if not changes:
            return
        self.state = self.cursor.state
        _apply(self.records, changes.records)
        _apply(self.gaps, changes.gaps)
        for first_seq, progress in changes.touched.items():
            self.bitmaps[first_seq] = progress.settled
            progress.is_stored = True
        for progress in changes.finished:
            assert (progress.chunk.first_seq in self.bitmaps) == progress.is_stored
            self.bitmaps.pop(progress.chunk.first_seq, None)
            del self.chunks[progress.chunk.first_seq]

    def restart(self) -> None:
        """Start again from what is stored."""
        self.cursor = GroupCursor(
            self.state._replace(log_bytes=self.log_bytes), self.tail_seq, dict(self.bitmaps), dict(self.gaps)
        )

    def take(self, max_count: int = 1, horizon_ms: int = 0) -> Lease | None:
        """Take, loading what is lacking."""
        while True:
            lease = self.cursor.take(max_count, horizon_ms)
            if lease is not None or self.cursor.blocked_on is None:
                return lease
            self.load(self.cursor.blocked_on)

    def load(self, place: Range, page_items: int = 3) -> None:
        """Load one page of a range."""
        self.commit()
        window = self.cursor.log if place is Range.LOG else self.cursor.returned[place]
        start = window.begin_load()
        stored = self.chunks if place is Range.LOG else {o: r for (p, o), r in self.records.items() if p is place}
        page = sorted(pair for pair in stored.items() if pair[0] >= start)[:page_items]
        rest = [order for order in stored if page and order > page[-1][0]]
        window.load(page, min(rest) if rest else None)

    def take_all(self, horizon_ms: int = 0) -> list[bytes]:
        """Take and acknowledge everything there is; return the payloads in order."""
        payloads = []
        while (lease := self.take(1, horizon_ms)) is not None:
            payloads += lease.payloads
            self.cursor.ack(lease)
        return payloads


def _apply(stored: dict, changes: dict) -> None:
    for key, value in changes.items():
        if value is None:
            stored.pop(key, None)
        else:
            stored[key] = value
