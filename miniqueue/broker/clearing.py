"""Removes the messages of a topic by state and age, in many small commits, beside everything else.

    purge ─▶ the log up to where it ends now: take a run ─▶ drop ─▶ … ─▶ commit ─▶ …
          └▶ what came back: a page of the store ─▶ those that are old enough ─▶ drop ─▶ commit ─▶ …

Each commit is whole: what it removed is gone and counted, the rest is there. So a purge may be broken off anywhere, and
asked for again. Leased messages stay, and so does what is published meanwhile.
"""

from collections.abc import Callable, Mapping, Set
from contextlib import aclosing
from math import inf

from miniqueue.broker import reading
from miniqueue.broker.browsing import Browser, Found
from miniqueue.broker.clock import Clock
from miniqueue.broker.delaying import Delayer
from miniqueue.broker.extents import Ends, ends_of
from miniqueue.broker.journal import Journal
from miniqueue.broker.looking import committed_topic
from miniqueue.broker.named_groups import group_named
from miniqueue.broker.peeking import State
from miniqueue.broker.topic import Topic
from miniqueue.core import cursor_view, expiry, purging
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Range
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.tracing import Kind
from miniqueue.errors import InvalidDelayError

#: A commit removes no more than this; runs of the log count one each, so that a turn of the loop stays short.
MAX_BYTES_PER_COMMIT = 8 << 20
MAX_RUNS_PER_COMMIT = 256
MAX_RECORDS_PER_COMMIT = 1024


class Clearer:
    """Purges topics.

    Args:
      topics: by name.
      journal: has the store, and commits what was removed.
      clock: tells how old messages are.
      horizon_ms: returns the time up to which delayed messages are ready.
      delayer: has what was published with a delay.
      loaded: called for each topic of which something was loaded.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        journal: Journal,
        clock: Clock,
        delayer: Delayer,
        *,
        horizon_ms: Callable[[], int],
        loaded: Callable[[Topic], None],
    ) -> None:
        self._topics = topics
        self._journal = journal
        self._clock = clock
        self._horizon_ms = horizon_ms
        self._delayer = delayer
        self._loaded = loaded

    async def purge(
        self,
        name: bytes,
        state: State | None = None,
        older_seconds: float | None = None,
        group: bytes | None = None,
    ) -> int:
        """Remove messages of a topic that are there now; return how many, when that is durable.

        It is how many the group lost that lost most.

        Args:
          name: of the topic.
          state: those that are ready, or delayed; None for both.
          older_seconds: those that were published at least so long ago; None for all.
          group: that is to lose them; None for all groups, and what was published with a delay that is not over.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError: nothing was removed.
          InvalidOptionError, InvalidDelayError: nor was it.
          UnavailableError, StorageError: it was broken off; what was removed by then is gone.
        """
        if state in (State.LEASED, State.DEAD):
            raise InvalidOptionError(f"{state} messages cannot be purged")
        if older_seconds is not None and not 0 <= older_seconds < inf:
            raise InvalidDelayError
        ends = ends_of(self._topics.get(name))
        topic = await committed_topic(self._topics, self._journal, name)
        due_order = (self._horizon_ms() + 1) << 64
        groups = topic.existing_groups if group is None else [group_named(topic, group)]
        latest_ms = inf if older_seconds is None else self._clock.now_ms() - older_seconds * 1000
        counts = [
            sum([await self._purge_cursor(topic, cursor, state, latest_ms, due_order, ends) for cursor in one.cursors])
            for one in groups
        ]
        is_delayed_meant = state is not State.READY and group is None
        delayed_count = 0 if not is_delayed_meant else await self._delayer.purge(topic, latest_ms, ends)
        return max(counts, default=0) + delayed_count

    async def _purge_cursor(
        self, topic: Topic, cursor: GroupCursor, state: State | None, latest_ms: float, due_order: int, ends: Ends
    ) -> int:
        end = ends.get(topic.partitions.get(cursor.partition))
        if end is None:
            return 0
        count = 0

        def is_old(found: Found) -> bool:
            return found.published_at_ms <= latest_ms and found.seq < end.seq

        if state is not State.DELAYED:
            count += await self._purge_log(topic, cursor, end.seq, latest_ms)
            for place in (Range.BACK, Range.FRONT):
                count += await self._purge_returned(topic, cursor, place, (0, None), is_old)
            count += await self._purge_returned(topic, cursor, Range.DELAYED, (0, due_order), is_old)
        if state is not State.READY:
            count += await self._purge_returned(topic, cursor, Range.DELAYED, (due_order, None), is_old)
        return count

    # --- the log ----------------------------------------------------------------------------------------------

    async def drop_unread(self, topic: Topic, cursor: GroupCursor, stop_seq: int) -> int:
        """Drop what a group was not handed yet of the log up to `stop_seq`, as missed; return how many that were.

        Raises as `purge`.
        """
        return await self._purge_log(topic, cursor, stop_seq, inf, is_missed=True)

    async def _purge_log(
        self, topic: Topic, cursor: GroupCursor, stop_seq: int, latest_ms: float, *, is_missed: bool = False
    ) -> int:
        total_count = 0
        while cursor in topic.cursors and cursor_view.ready_seq(cursor) < stop_seq:
            dropped_count, skipped_count = cursor.dropped_count, cursor.skipped_count
            self._drop_runs(topic, cursor, stop_seq, latest_ms, Kind.MISSED if is_missed else Kind.PURGED)
            if cursor.dropped_count > dropped_count:
                count = cursor.dropped_count - dropped_count - (cursor.skipped_count - skipped_count)
                total_count += count
                cursor.missed_count += count if is_missed else 0
                await self._commit(topic)
            elif cursor.blocked_on is not None:
                await self._load(topic, cursor)
            else:
                break
        return total_count

    def _drop_runs(self, topic: Topic, cursor: GroupCursor, stop_seq: int, latest_ms: float, kind: Kind) -> None:
        """Drop what one commit may."""
        group, size_bytes = topic.group_of(cursor).name, 0
        for _ in range(MAX_RUNS_PER_COMMIT):
            lease = purging.take_log(cursor, stop_seq, latest_ms)
            if lease is None:
                break
            expiry.drop_log(cursor, lease, kind, group)
            size_bytes += lease.size_bytes
            if size_bytes >= MAX_BYTES_PER_COMMIT:
                break
        purging.hold_back(cursor)

    async def _load(self, topic: Topic, cursor: GroupCursor) -> None:
        group = topic.group_of(cursor)
        if group.is_loading:
            await group.load_ended()
            return
        assert topic.id is not None
        group.is_loading = True
        flush = self._journal.committer.flush
        try:
            await reading.load(self._journal.store, Range.LOG, cursor, topic.id, flush)
        finally:
            if cursor in topic.cursors:  # else it was deleted meanwhile
                group.end_loading()
                self._loaded(topic)

    # --- what came back ---------------------------------------------------------------------------------------

    async def _purge_returned(
        self,
        topic: Topic,
        cursor: GroupCursor,
        place: Range,
        orders: tuple[int, int | None],
        is_old: Callable[[Found], bool],
    ) -> int:
        if topic.id is None or cursor not in topic.cursors:
            return 0
        total_count = 0
        old: list[Found] = []
        browser = Browser(self._journal.store, topic.id, cursor, topic.group_of(cursor).name)
        with cursor.returned[place].watch() as gone:
            await self._journal.committer.flush()  # what had gone before is not in the store then
            async with aclosing(browser.returned(place, *orders)) as waiting:
                async for found in waiting:
                    if is_old(found):
                        old.append(found)
                    if len(old) >= MAX_RECORDS_PER_COMMIT:
                        total_count += await self._drop_records(topic, cursor, place, old, gone)
                        old = []
            return total_count + await self._drop_records(topic, cursor, place, old, gone)

    async def _drop_records(
        self, topic: Topic, cursor: GroupCursor, place: Range, old: list[Found], gone: Set[int]
    ) -> int:
        """Drop what was found, unless it has gone since it was read."""
        positions = [(found.position.order, found) for found in old if found.position]
        stored = [
            (order, found.seq, found.payload, found.attributes) for order, found in positions if order not in gone
        ]
        if not stored or cursor not in topic.cursors:
            return 0
        if cursor.trace is not None:
            waiting = (seq for order, seq, _, _ in stored if cursor_view.is_waiting(cursor, place, order))
            cursor.trace.note_each(Kind.PURGED, waiting)
        count = purging.drop_records(cursor, place, stored)
        await self._commit(topic)
        return count

    async def _commit(self, topic: Topic) -> None:
        self._journal.touch(topic)
        await self._journal.committer.flush()
