"""Removes the messages of a topic by state and age, in many small commits, while other work continues.

    purge ─▶ the log, up to its current end: what is in memory, of many partitions ─▶ drop ─▶ commit ─▶ …
          ├▶ the rest of each log: take a run ─▶ drop ─▶ … ─▶ commit ─▶ …
          └▶ returned messages: read a page from the store ─▶ select those old enough ─▶ drop ─▶ commit ─▶ …

Each commit is atomic: the messages that it removed are deleted and counted, all others remain. So a purge can be
interrupted at any point and requested again. Leased messages remain, and so do messages published meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import aclosing
from functools import partial
from itertools import compress
from math import inf
from operator import attrgetter
from typing import NamedTuple

from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.load import load
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import Ends, ends_of, group_named
from miniqueue.broker.stored.browse import CursorBrowser, StoredMessage
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.group import expired, removing, view
from miniqueue.errors import BrokenOffError, InvalidDelayError
from miniqueue.errors.requests import InvalidOptionError

#: Limits of one commit, so that each event-loop iteration is short: bytes and runs of the log, or records of returned
#: messages. A commit can exceed the bytes by one run.
MAX_BYTES_PER_COMMIT = 8 << 20
MAX_RUNS_PER_COMMIT = 256
MAX_RECORDS_PER_COMMIT = 1024
#: A partition of many that are purged together counts as so many runs more.
RUNS_OF_PARTITION = 2

_depth = attrgetter("depth")


class Removed:
    """Counts the messages that a purge has durably removed, even if the purge is interrupted."""

    def __init__(self) -> None:
        self._of_groups: Counter[bytes] = Counter()
        self._delayed_count = 0

    def of_group(self, group: bytes, count: int) -> None:
        """Count messages that were removed from a group."""
        self._of_groups[group] += count

    def delayed(self, count: int) -> None:
        """Count delayed messages that were removed before they were due."""
        self._delayed_count += count

    @property
    def count(self) -> int:
        """The largest number of messages that one group lost, plus the delayed messages, which no group had yet."""
        return max(self._of_groups.values(), default=0) + self._delayed_count


async def purge(
    engine: Engine,
    delayed: DelayedMessages,
    name: bytes,
    state: State | None = None,
    older_seconds: float | None = None,
    group: bytes | None = None,
) -> int:
    """Remove messages that a topic has now; return their number when the removal is durable.

    If several groups lose messages, the number is the largest that one group lost, plus the delayed messages.

    Args:
      engine: provides the topics and the store.
      delayed: the messages that were published with a delay.
      name: the name of the topic.
      state: READY or DELAYED selects messages in this state; None selects both.
      older_seconds: the minimum age of the messages, since they were published; None selects all.
      group: the group that loses the messages; None means all groups, and the delayed messages that are not due yet.

    Raises:
      InvalidTopicError, UnknownTopicError, UnknownGroupError: no message was removed.
      InvalidOptionError, InvalidDelayError: no message was removed.
      UnavailableError, StorageError: the purge was interrupted; messages that were removed before remain removed. If
        the store failed, BrokenOffError says how many these are.
    """
    check_purged(state)
    if older_seconds is not None and not 0 <= older_seconds < inf:
        raise InvalidDelayError
    removed = Removed()
    try:
        await engine.journal.epoch.once(_purge(engine, delayed, name, state, older_seconds, group, removed=removed))
    except BrokenOffError as exc:
        outcome = f"at least {removed.count} messages were removed"
        raise BrokenOffError(f"the store failed during the purge; {outcome}; purge again for the rest") from exc
    return removed.count


def check_purged(state: State | None) -> None:
    """Raise InvalidOptionError for a state whose messages a purge does not remove."""
    if state in (State.LEASED, State.DEAD):
        raise InvalidOptionError(f"{state} messages cannot be purged")


class _Selection(NamedTuple):
    """The messages that a purge removes.

    Attributes:
      state: READY or DELAYED selects messages in this state; None selects both.
      latest_ms: the latest publish time of the messages.
      due_order: messages returned with a delay are ready if their order is below this one.
    """

    state: State | None
    latest_ms: float
    due_order: int


async def _purge(
    engine: Engine,
    delayed: DelayedMessages,
    name: bytes,
    state: State | None,
    older_seconds: float | None,
    group: bytes | None,
    *,
    removed: Removed,
) -> None:
    ends = ends_of(engine.topics.by_name.get(name))
    topic = await engine.journal.committed_topic(name)
    due_order = (engine.horizon.at_ms + 1) << 64
    groups = topic.existing_groups if group is None else [group_named(topic, group)]
    latest_ms = inf if older_seconds is None else engine.clock.now_ms() - older_seconds * 1000
    selection = _Selection(state, latest_ms, due_order)
    for listed in groups:
        group_now = partial(_group_now, topic, topic.id, listed.name)
        while (current := group_now()) is not None:  # a group that is moved, or created again, has other cursors
            cursors = list(current.cursors)
            await _purge_cursors(engine, topic, cursors, selection, ends, partial(removed.of_group, listed.name))
            if group_now() is current and current.cursors == cursors:
                break
    if state is not State.READY and group is None:
        await delayed.purge(topic, latest_ms, ends, removed.delayed)


async def _purge_cursors(
    engine: Engine,
    topic: Topic,
    cursors: Sequence[GroupCursor],
    selection: _Selection,
    ends: Ends,
    note: Callable[[int], None],
) -> None:
    """Purge the cursors of a group, one for each partition: there can be thousands, most of them without messages."""
    await asyncio.sleep(0)  # each group is looked at in an iteration of its own
    holding = [*compress(cursors, map(_depth, cursors))]
    if selection.state is not State.DELAYED:
        await _purge_loaded(engine, topic, holding, selection.latest_ms, ends, note)
    for cursor in compress(holding, map(_depth, holding)):
        await _purge_cursor(engine, topic, cursor, selection, ends, note)


async def _purge_cursor(
    engine: Engine,
    topic: Topic,
    cursor: GroupCursor,
    selection: _Selection,
    ends: Ends,
    note: Callable[[int], None],
) -> None:
    end = ends.get(topic.partitions.get(cursor.partition))
    if end is None:
        return
    state, latest_ms, due_order = selection

    def is_old(message: StoredMessage) -> bool:
        return message.published_at_ms <= latest_ms and message.seq < end.seq

    if state is not State.DELAYED:
        await _purge_log(engine, topic, cursor, end.seq, latest_ms, note)
        for range_ in (Range.BACK, Range.FRONT):
            await _purge_returned(engine, topic, cursor, range_, (0, None), is_old, note=note)
        await _purge_returned(engine, topic, cursor, Range.DELAYED, (0, due_order), is_old, note=note)
    if state is not State.READY:
        await _purge_returned(engine, topic, cursor, Range.DELAYED, (due_order, None), is_old, note=note)


# --- the log --------------------------------------------------------------------------------------------------


class _Room:
    """How much more one commit may drop: runs of the log, and their size."""

    def __init__(self) -> None:
        self.runs = MAX_RUNS_PER_COMMIT
        self.size_bytes = MAX_BYTES_PER_COMMIT

    @property
    def is_left(self) -> bool:
        """Whether anything more may be dropped."""
        return self.runs > 0 and self.size_bytes > 0


async def _purge_loaded(
    engine: Engine,
    topic: Topic,
    cursors: Sequence[GroupCursor],
    latest_ms: float,
    ends: Ends,
    note: Callable[[int], None],
) -> None:
    """Drop what is in memory of the logs of a group, as much as fits into the commits that each log takes part in."""
    room, count, is_due = _Room(), 0, False
    for cursor in cursors:
        end = ends.get(topic.partitions.get(cursor.partition))
        if end is not None and _is_current(topic, cursor):
            dropped_count = cursor.dropped_count
            count += _drop_runs(topic, cursor, end.seq, latest_ms, Kind.PURGED, room)
            room.runs -= RUNS_OF_PARTITION
            is_due = is_due or cursor.dropped_count > dropped_count
        if not room.is_left or cursor is cursors[-1]:
            if is_due:
                await _commit(engine, topic)
                note(count)
            else:
                await asyncio.sleep(0)
            room, count, is_due = _Room(), 0, False


async def drop_unread(engine: Engine, topic: Topic, cursor: GroupCursor, stop_seq: int) -> int:
    """Drop the messages of the log before `stop_seq` that were not delivered to a group yet; return their number.

    They count as missed. Raises the same errors as `purge`.
    """
    removed = Removed()
    note = partial(removed.of_group, b"")
    await _purge_log(engine, topic, cursor, stop_seq, inf, note, is_missed=True)
    return removed.count


async def _purge_log(
    engine: Engine,
    topic: Topic,
    cursor: GroupCursor,
    stop_seq: int,
    latest_ms: float,
    note: Callable[[int], None],
    *,
    is_missed: bool = False,
) -> None:
    kind = Kind.MISSED if is_missed else Kind.PURGED
    while _is_current(topic, cursor) and view.ready_seq(cursor) < stop_seq:
        dropped_count = cursor.dropped_count
        count = _drop_runs(topic, cursor, stop_seq, latest_ms, kind, _Room())
        if cursor.dropped_count > dropped_count:
            cursor.missed_count += count if is_missed else 0
            await _commit(engine, topic)
            note(count)
        elif cursor.blocked_on is not None:
            await _load(engine, topic, cursor)
        else:
            break


def _drop_runs(topic: Topic, cursor: GroupCursor, stop_seq: int, latest_ms: float, kind: Kind, room: _Room) -> int:
    """Drop runs of the log, as many as there is room for; return the number of messages that the group has lost."""
    group, lost_before = topic.group_of(cursor).name, cursor.dropped_count - cursor.skipped_count
    while room.is_left:
        lease = removing.take_log(cursor, stop_seq, latest_ms)
        if lease is None:
            break
        expired.drop_log(cursor, lease, kind, group)
        room.runs -= 1
        room.size_bytes -= lease.size_bytes
    removing.hold_back(cursor)
    return cursor.dropped_count - cursor.skipped_count - lost_before


async def _load(engine: Engine, topic: Topic, cursor: GroupCursor) -> None:
    group = topic.group_of(cursor)
    if group.is_loading:
        await group.load_ended()
    else:
        await load(engine, group, cursor, Range.LOG)


# --- returned messages ----------------------------------------------------------------------------------------


async def _purge_returned(
    engine: Engine,
    topic: Topic,
    cursor: GroupCursor,
    range_: Range,
    orders: tuple[int, int | None],
    is_old: Callable[[StoredMessage], bool],
    *,
    note: Callable[[int], None],
) -> None:
    if topic.id is None or not cursor.depth or view.is_empty(cursor, range_) or not _is_current(topic, cursor):
        return
    old: list[StoredMessage] = []
    browser = CursorBrowser(engine.journal.store, topic.id, cursor, topic.group_of(cursor).name)
    with cursor.returned[range_].watch() as removed_orders:
        await engine.journal.committer.flush()  # so the store does not have records that were removed before
        async with aclosing(browser.returned(range_, *orders)) as waiting:
            async for message in waiting:
                if is_old(message):
                    old.append(message)
                if len(old) >= MAX_RECORDS_PER_COMMIT:
                    note(await _drop_records(engine, topic, cursor, range_, old, removed_orders))
                    old = []
        note(await _drop_records(engine, topic, cursor, range_, old, removed_orders))


async def _drop_records(
    engine: Engine, topic: Topic, cursor: GroupCursor, range_: Range, old: list[StoredMessage], removed_orders: Set[int]
) -> int:
    """Drop messages that were read from the store, except those removed since; return how many were dropped."""
    messages = [(message.position.order, message) for message in old if message.position]
    stored = [
        (order, message.seq, message.payload, message.attributes)
        for order, message in messages
        if order not in removed_orders
    ]
    if not stored or not _is_current(topic, cursor):
        return 0
    if cursor.trace is not None:
        waiting = (seq for order, seq, _, _ in stored if view.is_waiting(cursor, range_, order))
        cursor.trace.note_each(cursor, Kind.PURGED, waiting)
    count = removing.drop_records(cursor, range_, stored)
    await _commit(engine, topic)
    return count


async def _commit(engine: Engine, topic: Topic) -> None:
    engine.journal.touch(topic)
    await engine.journal.committer.flush()


def _is_current(topic: Topic, cursor: GroupCursor) -> bool:
    """Whether a cursor is still that of its group in its partition; asked of each, so not of a list of all."""
    partition = topic.partitions.get(cursor.partition)
    return partition is not None and partition.cursors.get(cursor.group) is cursor


def _group_now(topic: Topic, topic_id: int | None, name: bytes) -> Group | None:
    """Return the group that has a name; None if no group has it or the topic was deleted."""
    group = topic.groups.get(name)
    return None if topic.id != topic_id or group is None or group.id is None else group
