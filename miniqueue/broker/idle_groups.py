"""Knows for how long nobody has read with each group, says so, and deletes groups if their topic wants it.

    tick ─▶ look, once a minute ─▶ is somebody there, or was since the last look? ─ yes ─▶ unread for 0 s
                 └ no ─▶ unread for a minute more
                           ├ it holds back the most of its topic, for one more day ─▶ a warning
                           └ for `group_idle_seconds` ─▶ deleted; never default, never the last

Who is there is a consumer, a request for messages, or somebody who has a lease.
Only time counts in which the broker runs: of a gap between two ticks, as when the process was stopped, no more than two
periods. A start begins anew.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any

import structlog

from miniqueue.broker.clock import Clock
from miniqueue.broker.group import Group
from miniqueue.broker.topic import Topic
from miniqueue.broker.turns import in_turns
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()

LOOK_SECONDS = 60.0
DAY_SECONDS = 86_400.0
TOPICS_IN_TURN = 100


class IdleGroups:
    """Looks who reads.

    Args:
      topics: by name.
      clock: tells how much time has passed.
      period_seconds: between two ticks, as a rule.
      delete: deletes a group; raises MiniqueueError.
      spawn: runs something in the background.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        clock: Clock,
        *,
        period_seconds: float,
        delete: Callable[[Group], None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._max_step_seconds = 2 * period_seconds
        self._delete = delete
        self._spawn = spawn
        self._ticked_at = clock.monotonic()
        self._unnoted_seconds = 0.0
        self._is_looking = False

    def tick(self) -> None:
        """Look when it is time, unless that still goes on."""
        now = self._clock.monotonic()
        self._unnoted_seconds += min(now - self._ticked_at, self._max_step_seconds)
        self._ticked_at = now
        if self._unnoted_seconds >= LOOK_SECONDS and not self._is_looking:
            self._is_looking = True
            seconds, self._unnoted_seconds = self._unnoted_seconds, 0.0
            self._spawn(self._look(seconds))

    async def _look(self, seconds: float) -> None:
        try:
            async with aclosing(in_turns(list(self._topics.values()), TOPICS_IN_TURN)) as topics:
                async for topic in topics:
                    if topic.id is not None and topic.fault is None:
                        self._look_at(topic, seconds)
        finally:
            self._is_looking = False

    def _look_at(self, topic: Topic, seconds: float) -> None:
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
                self._end(group)

    def _end(self, group: Group) -> None:
        fields = _fields(group)
        try:
            self._delete(group)
        except MiniqueueError as exc:
            log.warning("a group that nobody reads was not deleted; it is tried again", error=str(exc), **fields)
        else:
            log.warning("a group that nobody reads was deleted (group_idle_seconds)", **fields)


def _is_read(group: Group) -> bool:
    """Tell whether somebody reads with a group, or has since this was asked last."""
    was_read, group.was_read = group.was_read, False
    return was_read or group.consumer_count > 0 or (group.book is not None and group.book.count > 0)


def _warn(group: Group) -> None:
    """Say that a group holds back the most of its topic, if it does."""
    if group is group.topic.last_group and group.depth:
        log.warning("nobody reads the group that holds back the most of its topic", **_fields(group))


def _fields(group: Group) -> dict[str, object]:
    return {
        "topic": group.topic.name,
        "group": group.name,
        "unread_seconds": round(group.unread_seconds),
        "messages": group.depth,
    }
