"""Hands out the messages of a partition key by key: in turns, and one key's in order, where the topic wants that.

It stands between a cursor's windows and taking. What the windows have loaded it looks at, and knows from then on by
key; so it finds the next message of every key, however many of another lie in front of it.

    store ─▶ windows ─▶ known, by key ─▶ turn ─▶ lease
                        log         up to a bound (`look_ahead`), in order; what lies beyond comes later
                        came back   all of it, where keys are ordered (`known_returns`)

Order does not depend on the bound: the log is looked at from its beginning, and nothing of it is handed out before all
that came back is known. Nothing of this is stored: what is known is what any cursor can load.

A reader that is to end drains: it hands out what it knows of chunks that are in use, and has given the rest back.
"""

from collections.abc import Iterable

from miniqueue.core.attributes import key_of
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.key_queue import FREE, KeyQueue, KeyRules, Returned
from miniqueue.core.known_returns import KnownReturns
from miniqueue.core.lease import ChunkLease, ChunkProgress, Lease, Range
from miniqueue.core.look_ahead import LookAhead, bits_of
from miniqueue.core.turns import Turns


class KeyedReader:
    """The other way to take from a cursor; `arrange` connects both.

    Args:
      cursor: whose messages are handed out.
      rules: for each key.
      is_draining: whether nothing more is looked at.

    Attributes:
      turns: whose turn it is; its `now` must be set before each `take` where there is a pace.
      ahead: what is known of the log.
      returns: what is known of what came back.
    """

    def __init__(self, cursor: GroupCursor, rules: KeyRules, *, is_draining: bool = False) -> None:
        self.rules = rules
        self.is_draining = is_draining
        self.turns = Turns(rules)
        self.ahead = LookAhead(cursor, self.turns)
        self.returns = KnownReturns(cursor, self.turns)
        self._cursor = cursor
        self._lent: dict[int, KeyQueue] = {}  # by sequence number, of keys whose leases are counted
        self._begin()

    def _begin(self) -> None:
        """Know what the cursor has opened and leased, and what is held back."""
        self.turns.hold(self._cursor.log.stop)
        leased: dict[int, int] = {}
        for lease in self._cursor._leases.values():
            if isinstance(lease, ChunkLease):
                first_seq = lease.progress.chunk.first_seq
                leased[first_seq] = leased.get(first_seq, 0) | bits_of(lease.start, lease.count)
            for record in lease.records():
                self._count(self.turns.queue(key_of(record.attributes)), record.seq)
        for first_seq, progress in self._cursor._open.items():
            self.ahead.know(progress, progress.settled | leased.get(first_seq, 0))
        self._cursor._reading = None

    @property
    def size_bytes(self) -> int:
        """What of messages is kept in memory, and can be given back."""
        return self.ahead.size_bytes + self.returns.size_bytes

    # --- handing out ------------------------------------------------------------------------------------------

    def take(self, max_count: int, horizon_ms: int) -> Lease | None:
        """Lease the next messages, as `GroupCursor.take` does."""
        cursor, turns = self._cursor, self.turns
        cursor.blocked_on = None
        turns.due_limit = (horizon_ms + 1) << 64
        if not self.is_draining and not self._look():
            return None
        turns.wake()
        next_one = turns.first()
        if next_one is None:
            return self._end(max_count, horizon_ms)
        queue, head = next_one
        if isinstance(head, Returned):
            return self._take_returned(queue, head)
        return self._take_log(queue, head, max_count)

    def _look(self) -> bool:
        """Know as much as may be; False when something must be loaded first, and the cursor says what."""
        cursor, ahead = self._cursor, self.ahead
        cursor.blocked_on = self.returns.look(is_full=ahead.is_full)
        if cursor.blocked_on is not None:
            return False
        ahead.look()
        if (cursor.log.has_next or cursor.log.is_lacking) and not ahead.is_full:
            cursor.blocked_on = Range.LOG
        return cursor.blocked_on is None

    def _end(self, max_count: int, horizon_ms: int) -> Lease | None:
        """Let the cursor take plainly, when everything is drained."""
        if not self.is_draining:
            return None
        self._cursor.keyed = None
        return self._cursor.take(max_count, horizon_ms)

    def _take_log(self, queue: KeyQueue, seq: int, max_count: int) -> Lease:
        """Lease the first message of a key's log, and those behind it as far as they are next as well."""
        turns = self.turns
        progress = self.ahead.chunk_of(seq)
        self._lend(queue, seq)
        stop_seq, end_seq = seq + 1, min(seq + max_count, progress.chunk.end_seq)
        while stop_seq < end_seq and (next_one := turns.first()) is not None and next_one[1] == stop_seq:
            self._lend(next_one[0], stop_seq)
            stop_seq += 1
        return self.ahead.lease(progress, seq - progress.chunk.first_seq, stop_seq - seq)

    def _take_returned(self, queue: KeyQueue, returned: Returned) -> Lease | None:
        lease = self.returns.lease(returned)
        if lease is not None:
            self._count(queue, returned.seq)
            self.turns.lent(queue)
        return lease

    def _lend(self, queue: KeyQueue, seq: int) -> None:
        """Take the first message of a key's log."""
        queue.pop()
        self._count(queue, seq)
        self.turns.lent(queue)

    def _count(self, queue: KeyQueue, seq: int) -> None:
        if queue.rules.has_limit:
            self._lent[seq] = queue
            queue.leased_count += 1

    def release(self, lease: Lease) -> None:
        """Note that a lease is over; what comes back of it is in the windows, or follows."""
        first_seq = lease.first_seq
        for seq in range(first_seq, first_seq + lease.count) if self._lent else ():
            if (queue := self._lent.pop(seq, None)) is not None:
                queue.leased_count -= 1
                self.turns.enlist(queue)
        if isinstance(lease, ChunkLease) and not lease.progress.unsettled_count:
            self.ahead.forget(lease.progress.chunk.first_seq)

    # --- removing ---------------------------------------------------------------------------------------------

    def oldest(self) -> ChunkProgress | None:
        """Return the chunk with the oldest message of the log that waits, whose only run begins there.

        None as `take`. For those who drop messages; they lease them with `withdraw`.
        """
        while True:
            progress = self.ahead.oldest()
            if progress is not None:
                return progress
            if not self.ahead.look():
                break
        cursor = self._cursor
        if cursor.log.is_lacking and not self.ahead.is_full:
            cursor.blocked_on = Range.LOG
        elif self.is_draining:
            cursor.keyed = None
        return None

    def withdraw(self, progress: ChunkProgress, max_count: int) -> Lease:
        """Lease messages that `oldest` named, whosever turn it is: they are the first of their keys in the log."""
        (start, stop), progress.runs = progress.runs[0], []
        stop = min(stop, start + max_count)
        attributes = progress.chunk.attributes
        for index in range(start, stop):
            key = b"" if attributes is None else key_of(attributes[index])
            queue = self.turns.queue(key)
            self._lend(queue, progress.chunk.first_seq + index)
            self.turns.unspend(queue)
        return self.ahead.lease(progress, start, stop - start)

    def oldest_returned(self) -> Lease | None:
        """Lease a message that came back, to drop it; None as `take`."""
        oldest = self.returns.oldest(is_full=self.ahead.is_full)
        lease = None if oldest is None else self._take_returned(oldest.queue, oldest)
        if oldest is not None and lease is not None:
            self.turns.unspend(oldest.queue)
        return lease

    def unspend(self, lease: Lease) -> None:
        """Note that messages were given up that would have been handed out: they make none of their keys fast."""
        for extra in lease.attributes or () if self.rules.per_second else ():
            if (queue := self.turns.queues.get(key_of(extra))) is not None:
                self.turns.unspend(queue)

    def drop(self, place: Range, orders: Iterable[int]) -> None:
        """Forget messages that came back and are gone."""
        self.returns.drop(place, orders)

    # --- giving back ------------------------------------------------------------------------------------------

    def evict(self) -> None:
        """Give memory back."""
        self.returns.evict()
        self.ahead.close()

    def close(self) -> None:
        """Give back everything that nobody uses, so that another way of taking can begin."""
        self.evict()
        self.returns.give_back()


def arrange(cursor: GroupCursor, rules: KeyRules | None) -> None:
    """Have a cursor hand out messages by these rules from now on; None for plainly, one after the other.

    Leases stay as they are; those of a key count for it.
    """
    reader = cursor.keyed
    if reader is None:
        if rules is None:
            return
    elif reader.is_draining == (rules is None) and rules in (None, reader.rules):
        return
    else:
        reader.close()
    cursor.keyed = KeyedReader(cursor, FREE if rules is None else rules, is_draining=rules is None)
