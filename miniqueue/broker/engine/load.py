"""Loads messages that cursors need but that are not in memory, one page of one group at a time.

    load_ahead ─▶ in the background ─┐
    load ──────▶ in the caller's act ┴─▶ is_loading ─▶ a page of the store ─▶ loading ends ─▶ `readable`
                                             └ the store failed, or the topic was deleted: the page is dropped

A fault of `load_ahead` is reported to the waiting consumers, a fault of `load` to its caller.
"""

from collections.abc import Awaitable, Callable

import structlog

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.stored import load as reading
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Range
from miniqueue.core.settings.fields import LimitPolicy
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()


def load_ahead(engine: Engine, group: Group) -> None:
    """Begin to load the page that the last `take` needed, or that the next `take` will need."""
    if group.is_loading:
        return
    for cursor in group.load_order:
        range_ = cursor.blocked_on if group.waiters else None
        if range_ is None and cursor.log.wants_more:
            range_ = Range.LOG
        if range_ is not None:
            group.begin_loading()
            assert group.topic.id is not None  # only an existing topic has pages to load
            engine.spawn(_load(engine, group, group.topic.id, cursor, range_))
            return


async def _load(engine: Engine, group: Group, topic_id: int, cursor: GroupCursor, range_: Range) -> None:
    """Load a page, then raise `readable`, unless the load is cancelled or fails because of a bug."""
    fault: MiniqueueError | None = None
    try:
        await reading.load(engine.journal.store, range_, cursor, topic_id, engine.journal.committer.flush)
    except MiniqueueError as exc:
        fault = exc
    if _end_load(engine, group, cursor, fault):
        _trim_soon(engine, group.topic)


async def load(
    engine: Engine,
    group: Group,
    cursor: GroupCursor,
    range_: Range,
    flush: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Load the next page of a range for a cursor; no other load of its group may be in progress.

    The event `readable` is raised when the load ends, even if it fails, unless the cursor is gone by then.

    Args:
      engine: has the store.
      group: the group that has the cursor.
      cursor: a cursor of an existing topic.
      range_: the range of which to load a page.
      flush: commits the changes that must be in the store before a range is read; by default, all changes.

    Raises:
      StorageError: the page cannot be read.
      UnavailableError: the changes that must be in the store could not be committed.
    """
    topic_id = group.topic.id
    assert topic_id is not None
    group.begin_loading()
    try:
        await reading.load(engine.journal.store, range_, cursor, topic_id, flush or engine.journal.committer.flush)
    finally:
        _end_load(engine, group, cursor)


def _end_load(engine: Engine, group: Group, cursor: GroupCursor, fault: MiniqueueError | None = None) -> bool:
    """Mark a load as ended; return False if the cursor is gone: the topic was deleted, or is read again."""
    if cursor not in group.cursors:
        return False
    group.end_loading()
    if fault is not None:
        _fail(group, fault)
    engine.events.readable(group.topic)
    engine.events.loaded(group.topic)
    return True


def _trim_soon(engine: Engine, topic: Topic) -> None:
    """Trim a topic that is still over its limits: the messages to drop may not have been in memory before."""
    if topic.id is None or engine.limits.policy_of(topic) is not LimitPolicy.DROP_OLDEST:
        return  # the next publish makes dead letters; with that policy a topic may be slightly over its limits
    if engine.limits.excess(topic).is_over:
        engine.journal.trim_soon(topic)
        engine.journal.committer.request()


def _fail(group: Group, fault: MiniqueueError) -> None:
    """Report a fault to the waiting consumers; damage is remembered, any other fault may be temporary."""
    topic = group.topic
    log.error("topic cannot be read", topic=topic.name, error=str(fault))
    topic.note_fault(fault)
    group.fail(fault)
