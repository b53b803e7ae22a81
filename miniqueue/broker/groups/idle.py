"""Measures for how long no client has read with each group, warns, and deletes groups if their topic's settings say so.

    tick ─▶ check, once a minute ─▶ is a reader present, or was one since the last check? ─ yes ─▶ unread for 0 s
                                       └ no ─▶ unread for one more minute
                                                 ├ one more full day, and the last group of its topic ─▶ a warning
                                                 └ `group_idle_seconds` ─▶ deleted, except default and the only group

A reader is a consumer, a request for messages, or a lease. The last group of a topic is the one that holds back the
most messages. Only time in which the broker runs counts: of a gap between two ticks, as when the process was stopped,
at most two periods count. A restart resets the times.
"""

from collections.abc import Callable
from contextlib import aclosing

import structlog

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()

#: Interval between two checks of all groups.
LOOK_SECONDS = 60.0
#: Interval between two warnings about the same group.
DAY_SECONDS = 86_400.0
#: Topics that one event-loop iteration checks, so that it stays short.
TOPICS_IN_TURN = 100

#: Deletes a group; raises MiniqueueError.
Delete = Callable[[Group], None]


class IdleGroups:
    """Checks which groups are read, once a minute.

    Args:
      engine: provides the topics and the clock.
      period_seconds: the usual time between two ticks.
    """

    def __init__(self, engine: Engine, *, period_seconds: float) -> None:
        self._topics = engine.topics.by_name
        self._share = engine.share
        self._clock = engine.clock
        self._max_step_seconds = 2 * period_seconds
        self._ticked_at = engine.clock.monotonic()
        self._unnoted_seconds = 0.0
        self._looking = SingleTask(engine.spawn)

    def tick(self, delete: Delete) -> None:
        """Check all groups if a minute has passed and no check is in progress; call `delete` for groups to delete."""
        now = self._clock.monotonic()
        self._unnoted_seconds += min(now - self._ticked_at, self._max_step_seconds)
        self._ticked_at = now
        if self._unnoted_seconds >= LOOK_SECONDS and not self._looking.is_running:
            seconds, self._unnoted_seconds = self._unnoted_seconds, 0.0
            self._looking.start(self._look(seconds, delete))

    async def _look(self, seconds: float, delete: Delete) -> None:
        async with aclosing(self._share.in_turns(list(self._topics.values()), TOPICS_IN_TURN)) as topics:
            async for topic in topics:
                if topic.at_rest is not None:
                    topic.at_rest.unread_seconds += seconds  # no group of it holds back a message
                elif topic.id is not None and topic.fault is None:
                    _look_at(topic, seconds, delete)


def _look_at(topic: Topic, seconds: float, delete: Delete) -> None:
    groups = topic.existing_groups
    for group in groups:
        before = group.unread_seconds
        group.unread_seconds = 0.0 if _is_read(group) else before + seconds
        if len(groups) > 1 and group.unread_seconds // DAY_SECONDS > before // DAY_SECONDS:
            _warn(group)
    idle_seconds = topic.settings.group_idle_seconds
    for group in groups if idle_seconds else ():
        is_last = len(topic.existing_groups) == 1
        if group.unread_seconds >= idle_seconds and group is not topic.default and not is_last:
            _end(group, delete)


def _end(group: Group, delete: Delete) -> None:
    fields = _fields(group)
    try:
        delete(group)
    except MiniqueueError as exc:
        log.warning("a group that no client reads was not deleted; it is tried again", error=str(exc), **fields)
    else:
        log.warning("a group that no client reads was deleted (group_idle_seconds)", **fields)


def _is_read(group: Group) -> bool:
    """Return whether a client reads with a group, or has done so since the last call."""
    was_read, group.was_read = group.was_read, False
    return was_read or group.consumer_count > 0 or (group.book is not None and group.book.count > 0)


def _warn(group: Group) -> None:
    """Log a warning if a group holds back the most messages of its topic."""
    if group is group.topic.last_group and group.depth:
        log.warning("no client reads the group that holds back the most of its topic", **_fields(group))


def _fields(group: Group) -> dict[str, object]:
    return {
        "topic": group.topic.name,
        "group": group.name,
        "unread_seconds": round(group.unread_seconds),
        "messages": group.depth,
    }
