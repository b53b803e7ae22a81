"""Loads what cursors lack, in the background, one page of one topic at a time."""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from miniqueue.broker import reading
from miniqueue.broker.group import Group
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lease import Range
from miniqueue.errors import CorruptionError, FormatVersionError, MiniqueueError

log = structlog.get_logger()


class Loader:
    """Brings messages from the store into memory.

    Args:
      journal: has the store, and commits what must be there before a range is read.
      spawn: runs something in the background.
      loaded: called for each topic that may have new messages to hand out.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        loaded: Callable[[Topic], None],
    ) -> None:
        self._journal = journal
        self._spawn = spawn
        self._loaded = loaded

    def load_ahead(self, group: Group) -> None:
        """Begin to load what the last `take` lacked, or what the next ones will."""
        if group.is_loading:
            return
        for cursor in group.load_order:
            place = cursor.blocked_on if group.waiters else None
            if place is None and cursor.log.wants_more:
                place = Range.LOG
            if place is not None:
                group.is_loading = True
                assert group.topic.id is not None  # nothing is ever lacking in a topic that does not exist
                self._spawn(self._load(group, group.topic.id, cursor, place))
                return

    async def _load(self, group: Group, topic_id: int, cursor: GroupCursor, place: Range) -> None:
        fault: MiniqueueError | None = None
        try:
            flush = self._journal.committer.flush
            await reading.load(self._journal.store, place, cursor, topic_id, flush)
        except MiniqueueError as exc:
            fault = exc
        if cursor not in group.cursors:
            return  # the topic was deleted meanwhile, or is read anew
        group.end_loading()
        if fault is not None:
            _fail(group, fault)
        self._loaded(group.topic)


def _fail(group: Group, fault: MiniqueueError) -> None:
    """Tell those who wait; damage stays, any other fault may be gone when somebody asks again."""
    topic = group.topic
    log.error("topic cannot be read", topic=topic.name, error=str(fault))
    if isinstance(fault, CorruptionError | FormatVersionError):
        topic.fault = fault
    group.fail(fault)
