"""Removes the messages of a topic by state and age, in many small commits, beside everything else.

    purge ─▶ the log up to where it ends now: take a run ─▶ drop ─▶ … ─▶ commit ─▶ …
          └▶ what came back: a page of the store ─▶ those that are old enough ─▶ drop ─▶ commit ─▶ …

Each commit is whole: what it removed is gone and counted, the rest is there. So a purge may be broken off anywhere, and
asked for again. Leased messages stay, and so does what is published meanwhile.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Set
from contextlib import aclosing
from functools import partial
from math import inf

from miniqueue.broker import reading
from miniqueue.broker.browsing import Browser, Found
from miniqueue.broker.clock import Clock
from miniqueue.broker.delaying import Delayer
from miniqueue.broker.epoch import BrokenOffError
from miniqueue.broker.extents import Ends, ends_of
from miniqueue.broker.group import Group
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


class Removed:
    """Counts what a purge has removed durably, also when it is broken off."""

    def __init__(self) -> None:
        self._of_groups: Counter[bytes] = Counter()
        self._delayed_count = 0

    def of_group(self, group: bytes, count: int) -> None:
        """Count messages that a group has lost."""
        self._of_groups[group] += count

    def delayed(self, count: int) -> None:
        """Count messages that were published with a delay."""
        self._delayed_count += count

    @property
    def count(self) -> int:
        """How many the group lost that lost most, with those that no group had yet."""
        return max(self._of_groups.values(), default=0) + self._delayed_count


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
          UnavailableError, StorageError: it was broken off; what was removed by then is gone. If the store failed,
            BrokenOffError says how much that is.
        """
        if state in (State.LEASED, State.DEAD):
            raise InvalidOptionError(f"{state} messages cannot be purged")
        if older_seconds is not None and not 0 <= older_seconds < inf:
            raise InvalidDelayError
        removed = Removed()
        try:
            await self._journal.epoch.once(self._purge(name, state, older_seconds, group, removed))
        except BrokenOffError as exc:
            outcome = f"at least {removed.count} messages were removed"
            raise BrokenOffError(f"the store failed during the purge; {outcome}; purge again for the rest") from exc
        return removed.count

    async def _purge(
        self, name: bytes, state: State | None, older_seconds: float | None, group: bytes | None, removed: Removed
    ) -> None:
        ends = ends_of(self._topics.get(name))
        topic = await committed_topic(self._topics, self._journal, name)
        due_order = (self._horizon_ms() + 1) << 64
        groups = topic.existing_groups if group is None else [group_named(topic, group)]
        latest_ms = inf if older_seconds is None else self._clock.now_ms() - older_seconds * 1000
        for one in groups:
            group_now = partial(_group_now, topic, topic.id, one.name)
            while (found := group_now()) is not None:  # a group that is moved, or made anew, has other cursors
                cursors = list(found.cursors)
                for cursor in cursors:
                    await self._purge_cursor(topic, cursor, state, latest_ms, due_order, ends, removed)
                if group_now() is found and found.cursors == cursors:
                    break
        if state is not State.READY and group is None:
            await self._delayer.purge(topic, latest_ms, ends, removed.delayed)

    async def _purge_cursor(  # noqa: PLR0917 - what one purge is about
        self,
        topic: Topic,
        cursor: GroupCursor,
        state: State | None,
        latest_ms: float,
        due_order: int,
        ends: Ends,
        removed: Removed,
    ) -> None:
        end = ends.get(topic.partitions.get(cursor.partition))
        if end is None:
            return
        note = partial(removed.of_group, topic.group_of(cursor).name)

        def is_old(found: Found) -> bool:
            return found.published_at_ms <= latest_ms and found.seq < end.seq

        if state is not State.DELAYED:
            await self._purge_log(topic, cursor, end.seq, latest_ms, note)
            for place in (Range.BACK, Range.FRONT):
                await self._purge_returned(topic, cursor, place, (0, None), is_old, note)
            await self._purge_returned(topic, cursor, Range.DELAYED, (0, due_order), is_old, note)
        if state is not State.READY:
            await self._purge_returned(topic, cursor, Range.DELAYED, (due_order, None), is_old, note)

    # --- the log ----------------------------------------------------------------------------------------------

    async def drop_unread(self, topic: Topic, cursor: GroupCursor, stop_seq: int) -> int:
        """Drop what a group was not handed yet of the log up to `stop_seq`, as missed; return how many that were.

        Raises as `purge`.
        """
        removed = Removed()
        note = partial(removed.of_group, b"")
        await self._purge_log(topic, cursor, stop_seq, inf, note, is_missed=True)
        return removed.count

    async def _purge_log(
        self,
        topic: Topic,
        cursor: GroupCursor,
        stop_seq: int,
        latest_ms: float,
        note: Callable[[int], None],
        *,
        is_missed: bool = False,
    ) -> None:
        while cursor in topic.cursors and cursor_view.ready_seq(cursor) < stop_seq:
            dropped_count, skipped_count = cursor.dropped_count, cursor.skipped_count
            self._drop_runs(topic, cursor, stop_seq, latest_ms, Kind.MISSED if is_missed else Kind.PURGED)
            if cursor.dropped_count > dropped_count:
                count = cursor.dropped_count - dropped_count - (cursor.skipped_count - skipped_count)
                cursor.missed_count += count if is_missed else 0
                await self._commit(topic)
                note(count)
            elif cursor.blocked_on is not None:
                await self._load(topic, cursor)
            else:
                break

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
        note: Callable[[int], None],
    ) -> None:
        if topic.id is None or cursor not in topic.cursors:
            return
        old: list[Found] = []
        browser = Browser(self._journal.store, topic.id, cursor, topic.group_of(cursor).name)
        with cursor.returned[place].watch() as gone:
            await self._journal.committer.flush()  # what had gone before is not in the store then
            async with aclosing(browser.returned(place, *orders)) as waiting:
                async for found in waiting:
                    if is_old(found):
                        old.append(found)
                    if len(old) >= MAX_RECORDS_PER_COMMIT:
                        note(await self._drop_records(topic, cursor, place, old, gone))
                        old = []
            note(await self._drop_records(topic, cursor, place, old, gone))

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


def _group_now(topic: Topic, topic_id: int | None, name: bytes) -> Group | None:
    """Return the group of a name, if there is one, unless the topic was deleted."""
    group = topic.groups.get(name)
    return None if topic.id != topic_id or group is None or group.id is None else group
