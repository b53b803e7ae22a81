"""Delivers the messages of a partition by key: keys take turns, and each key is in order, if the topic requires it.

The reader works between the windows of a cursor and `take`. It indexes by key what the windows have loaded, and so
finds the next message of every key, whatever the number of messages of another key before it.

    store ─▶ windows ─▶ index by key ─▶ turn ─▶ lease
                        log        up to a limit (`log_index`), in order; later messages are indexed later
                        returned   all of them if keys are ordered (`returns_index`)

Order does not depend on the limit: the log is indexed from its beginning, and no message of it is delivered before all
returned messages are indexed. The index is not stored: it consists of what any cursor can load.

A reader that is to be removed drains: it delivers what it has indexed of chunks in use, and has returned the rest to
the windows.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from operator import attrgetter
from typing import cast

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import ChunkLease, ChunkProgress, Lease, Range
from miniqueue.core.cursor.many import set_all
from miniqueue.core.cursor.state import KeyedTaking
from miniqueue.core.keyed.key_queue import UNLIMITED, KeyQueue, KeyRules, Returned
from miniqueue.core.keyed.key_turns import KeyTurns
from miniqueue.core.keyed.log_index import LogIndex, bits_of
from miniqueue.core.keyed.returns_index import ReturnsIndex
from miniqueue.core.message.attributes import key_of

#: The parts of `size_bytes`, for thousands of readers, without running Python for each.
SIZES = attrgetter("ahead.size_bytes", "returns.size_bytes")


_keyed = attrgetter("keyed")


class KeyedReader:
    """Takes messages from a cursor by key; `arrange` connects it with the cursor.

    Args:
      cursor: the cursor.
      rules: the rules of each key.
      is_draining: whether it indexes no further messages.

    Attributes:
      turns: the turns among keys; if there is a rate limit, its `now` must be set before each `take`.
      ahead: the index of the log.
      returns: the index of returned messages.
    """

    def __init__(self, cursor: GroupCursor, rules: KeyRules, *, is_draining: bool = False) -> None:
        self.rules = rules
        self.is_draining = is_draining
        self.turns = KeyTurns(rules)
        self.ahead = LogIndex(cursor, self.turns)
        self.returns = ReturnsIndex(cursor, self.turns)
        self._cursor = cursor
        self._lent: dict[int, KeyQueue] = {}  # sequence numbers of leased messages whose keys have a limit
        self._begin()

    def _begin(self) -> None:
        """Index what the cursor has opened and leased, and apply its stop."""
        self.turns.hold(self._cursor.log.stop)
        leased: dict[int, int] = {}
        for lease in self._cursor.leases.values():
            if isinstance(lease, ChunkLease):
                first_seq = lease.progress.chunk.first_seq
                leased[first_seq] = leased.get(first_seq, 0) | bits_of(lease.start, lease.count)
            for record in lease.records():
                self._count(self.turns.queue(key_of(record.attributes)), record.seq)
        for first_seq, progress in self._cursor.open_chunks.items():
            self.ahead.add(progress, progress.settled | leased.get(first_seq, 0))
        self._cursor.reading = None

    @property
    def size_bytes(self) -> int:
        """The memory use of messages that `evict` can free."""
        return self.ahead.size_bytes + self.returns.size_bytes

    # --- taking -----------------------------------------------------------------------------------------------

    @property
    def is_at_work(self) -> bool:
        """Whether a message is indexed or leased, or the rate of a key is spent."""
        return bool(self.turns.queues or self._cursor.leases or self._cursor.open_chunks)

    def take(self, cursor: GroupCursor, max_count: int, horizon_ms: int) -> Lease | None:
        """Lease the next messages, as `GroupCursor.take` does."""
        turns = self.turns
        cursor.blocked_on = None
        turns.due_limit = (horizon_ms + 1) << 64
        if not self.is_draining and not self._extend():
            return None
        turns.wake()
        first = turns.first()
        if first is None:
            return self._end(max_count, horizon_ms)
        queue, head = first
        if isinstance(head, Returned):
            return self._take_returned(queue, head)
        return self._take_log(queue, head, max_count)

    def _extend(self) -> bool:
        """Index as much as the limits allow; return False if `blocked_on` names a range to load first."""
        cursor, ahead = self._cursor, self.ahead
        cursor.blocked_on = self.returns.extend(is_full=ahead.is_full)
        if cursor.blocked_on is not None:
            return False
        ahead.extend()
        if (cursor.log.has_next or cursor.log.is_lacking) and not ahead.is_full:
            cursor.blocked_on = Range.LOG
        return cursor.blocked_on is None

    def _end(self, max_count: int, horizon_ms: int) -> Lease | None:
        """Remove a drained reader, and let the cursor take in the order of the log again."""
        if not self.is_draining:
            return None
        self._cursor.keyed = None
        return self._cursor.take(max_count, horizon_ms)

    def _take_log(self, queue: KeyQueue, seq: int, max_count: int) -> Lease:
        """Lease the first message of a key's log, and the following ones as long as each is next in turn."""
        turns = self.turns
        progress = self.ahead.chunk_of(seq)
        self._lend(queue, seq)
        stop_seq, end_seq = seq + 1, min(seq + max_count, progress.chunk.end_seq)
        while stop_seq < end_seq and (first := turns.first()) is not None and first[1] == stop_seq:
            self._lend(first[0], stop_seq)
            stop_seq += 1
        return self.ahead.lease(progress, seq - progress.chunk.first_seq, stop_seq - seq)

    def _take_returned(self, queue: KeyQueue, returned: Returned) -> Lease | None:
        lease = self.returns.lease(returned)
        if lease is not None:
            self._count(queue, returned.seq)
            self.turns.lent(queue)
        return lease

    def _lend(self, queue: KeyQueue, seq: int) -> None:
        """Remove the first message of a key's log from its queue, and count it as leased."""
        queue.pop()
        self._count(queue, seq)
        self.turns.lent(queue)

    def _count(self, queue: KeyQueue, seq: int) -> None:
        if queue.rules.has_limit:
            self._lent[seq] = queue
            queue.leased_count += 1

    def release(self, lease: Lease) -> None:
        """Count a lease as ended; messages that it returns are in the windows, or are put there next."""
        first_seq = lease.first_seq
        for seq in range(first_seq, first_seq + lease.count) if self._lent else ():
            if (queue := self._lent.pop(seq, None)) is not None:
                queue.leased_count -= 1
                self.turns.enlist(queue)
        if isinstance(lease, ChunkLease) and not lease.progress.unsettled_count:
            self.ahead.forget(lease.progress.chunk.first_seq)

    # --- removing ---------------------------------------------------------------------------------------------

    def oldest(self) -> ChunkProgress | None:
        """Return the chunk with the oldest waiting message of the log, whose only run begins there; None as `take`.

        For callers that drop messages; they lease them with `withdraw`.
        """
        while True:
            progress = self.ahead.oldest()
            if progress is not None:
                return progress
            if not self.ahead.extend():
                break
        cursor = self._cursor
        if cursor.log.is_lacking and not self.ahead.is_full:
            cursor.blocked_on = Range.LOG
        elif self.is_draining:
            cursor.keyed = None
        return None

    def withdraw(self, progress: ChunkProgress, max_count: int) -> Lease:
        """Lease messages of the run of `oldest`, out of turn: they are the first of their keys in the log."""
        (start, stop), progress.runs = progress.runs[0], []
        stop = min(stop, start + max_count)
        attributes = progress.chunk.attributes
        for index in range(start, stop):
            key = b"" if attributes is None else key_of(attributes[index])
            queue = self.turns.queue(key)
            self._lend(queue, progress.chunk.first_seq + index)
            self.turns.unspend(queue)
        return self.ahead.lease(progress, start, stop - start)

    def take_out(self, progress: ChunkProgress, start: int, stop: int) -> Lease:
        """Lease waiting messages of an open chunk, from index `start` to before `stop`, out of turn.

        The caller settles them before anything else happens. The rates of their keys are not spent.
        """
        attributes, first_seq = progress.chunk.attributes, progress.chunk.first_seq
        for index in range(start, stop):
            queue = self.turns.queue(b"" if attributes is None else key_of(attributes[index]))
            queue.remove(first_seq + index)
            self._count(queue, first_seq + index)
            self.turns.enlist(queue)
        return self.ahead.lease(progress, start, stop - start)

    def oldest_returned(self) -> Lease | None:
        """Lease a returned message in order to drop it; None as `take`."""
        oldest = self.returns.oldest(is_full=self.ahead.is_full)
        lease = None if oldest is None else self._take_returned(oldest.queue, oldest)
        if oldest is not None and lease is not None:
            self.turns.unspend(oldest.queue)
        return lease

    def unspend(self, lease: Lease) -> None:
        """Take back the rate of messages that were leased for delivery and then dropped."""
        for extra in lease.attributes or () if self.rules.per_second else ():
            if (queue := self.turns.queues.get(key_of(extra))) is not None:
                self.turns.unspend(queue)

    def drop(self, range_: Range, orders: Iterable[int]) -> None:
        """Forget returned messages that were dropped."""
        self.returns.drop(range_, orders)

    # --- freeing memory ---------------------------------------------------------------------------------------

    def evict(self) -> None:
        """Free most of the memory of messages."""
        self.returns.evict()
        self.ahead.close()

    def close(self) -> None:
        """Return everything that is not leased to the windows, before another reader, or none, replaces this one."""
        self.evict()
        self.returns.give_back()


class _Nothing:
    """What a cursor has indexed that has no reader yet."""

    size_bytes = 0


class LateReader:
    """Stands for the readers of cursors, of which there may be thousands, until they deliver by key: `arrange_all`.

    A cursor gets a reader of its own with its first `take`. Until then nothing is indexed, and leases and returned
    messages are where they would be without a reader.

    Args:
      rules: the rules of each key.

    Attributes:
      now: the time that readers begin with, in seconds on the monotonic clock.
    """

    ahead = returns = _Nothing()
    size_bytes = 0
    is_draining = False

    def __init__(self, rules: KeyRules) -> None:
        self.rules = rules
        self.now = 0.0

    def take(self, cursor: GroupCursor, max_count: int, horizon_ms: int) -> Lease | None:
        """Give a cursor its reader, and lease its next messages."""
        reader = cursor.keyed = KeyedReader(cursor, self.rules)
        reader.turns.now = self.now
        return reader.take(cursor, max_count, horizon_ms)

    def release(self, lease: Lease) -> None:
        """Do nothing: a reader counts the leases that there are when it begins."""

    def evict(self) -> None:
        """Do nothing: nothing is indexed."""


def keyed_of(cursor: GroupCursor) -> KeyedReader | None:
    """Return the reader that delivers by key; None if it has not begun, or messages are delivered in their order."""
    keyed = cursor.keyed
    return keyed if isinstance(keyed, KeyedReader) else None


def with_reader(cursors: Sequence[GroupCursor]) -> list[tuple[GroupCursor, KeyedReader]]:
    """Return the cursors that have a reader, with it; there may be thousands of others."""
    having = compress(cursors, map(_is_reader, map(_keyed, cursors)))
    return [(cursor, cast(KeyedReader, cursor.keyed)) for cursor in having]


def arrange(cursor: GroupCursor, rules: KeyRules | None) -> None:
    """Set the rules by which a cursor delivers messages; None: in the order of the log.

    Leases stay as they are, and count for the limits of their keys.
    """
    reader = keyed_of(cursor)
    if reader is None:
        if rules is None:
            return
    elif reader.is_draining == (rules is None) and rules in (None, reader.rules):
        return
    else:
        reader.close()
    cursor.keyed = KeyedReader(cursor, UNLIMITED if rules is None else rules, is_draining=rules is None)


def arrange_all(cursors: Sequence[GroupCursor], late: LateReader | None) -> None:
    """Set the rules by which cursors deliver messages, as `arrange` does; None: in the order of the log.

    Cursors without messages in memory get their readers later: a loop over all does nothing but set an attribute.
    """
    at_work: list[tuple[GroupCursor, KeyedTaking[GroupCursor] | None]] = []
    for cursor, reader in with_reader(cursors):
        if reader.is_at_work:
            arrange(cursor, None if late is None else late.rules)
            at_work.append((cursor, cursor.keyed))
        else:
            reader.close()
    set_all(cursors, "keyed", late)
    for cursor, keyed in at_work:
        cursor.keyed = keyed


_is_reader = KeyedReader.__instancecheck__
