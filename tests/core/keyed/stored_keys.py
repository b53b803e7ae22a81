"""A stored cursor whose messages have keys, and that hands them out by their keys."""

from miniqueue.core.cursor.lease import Range
from miniqueue.core.keyed.key_queue import KeyRules
from miniqueue.core.keyed.reader import LateReader, arrange, arrange_all, keyed_of
from miniqueue.core.message.attributes import Attributes
from miniqueue.core.message.message import Chunk
from tests.core.cursor.stored_cursor import StoredCursor

ORDERED = KeyRules(is_ordered=True)
FAIR = KeyRules()


class StoredKeys(StoredCursor):
    """Publishes `key + number` under the key, one letter; a capital letter stands for none."""

    def __init__(self, rules: KeyRules | None = ORDERED) -> None:
        super().__init__()
        self.rules = rules
        self.acked: list[bytes] = []
        self.committed = 0  # number of `acked`, which the test fills
        arrange(self.cursor, rules)

    def commit(self) -> None:
        super().commit()
        self.committed = len(self.acked)

    def publish_keys(self, keys: str) -> None:
        """Commit one chunk, of a message for each letter."""
        self.commit()
        payloads = [f"{key}{seq}".encode() for seq, key in enumerate(keys, self.tail_seq)]
        attributes = [Attributes(key=key.encode() if key.islower() else b"").encode() for key in keys]
        self.log_bytes += sum(map(len, payloads)) + sum(map(len, attributes))
        chunk = Chunk(self.tail_seq, 1, payloads, self.log_bytes, attributes)
        self.chunks[chunk.first_seq] = chunk
        self.tail_seq = chunk.end_seq
        self.cursor.append(chunk)

    def arrange(self, rules: KeyRules | None) -> None:
        """Go on by other rules."""
        self.rules = rules
        arrange(self.cursor, rules)

    def arrange_late(self, rules: KeyRules | None) -> None:
        """Go on by other rules, as the cursors of a group do."""
        self.rules = rules
        arrange_all([self.cursor], None if rules is None else LateReader(rules))

    def restart(self) -> None:
        super().restart()
        arrange(self.cursor, self.rules)

    def load(self, place: Range, page_items: int = 3) -> None:
        keyed = keyed_of(self.cursor)
        if keyed is not None and place is Range.LOG:
            while keyed.ahead.extend():
                pass
            if self.cursor.log.resume_at is None:
                return
        elif keyed is not None and self.cursor.returned[place].resume_at is None:
            self.commit()
            for returned in keyed.returns.lacking(page_items):
                keyed.returns.supply(returned, self.records[returned.range_, returned.order])
            return
        super().load(place, page_items)

    def next(self, horizon_ms: int = 0, max_count: int = 1) -> str | None:
        """Take, and return payloads joined by blanks, or None."""
        lease = self.take(max_count, horizon_ms)
        return None if lease is None else b" ".join(lease.payloads).decode()

    def at_time(self, seconds: float) -> None:
        """Set the clock of the pace."""
        self.cursor.keyed.turns.now = seconds
