"""Measures for how long no client has read with each group, warns, and ends groups whose time has come.

    tick ─▶ check, once a minute ─▶ is a reader present, or was one since the last check? ─ yes ─▶ unread for 0 s
                                       └ no ─▶ unread for one more minute
                                                 ├ one more full day, and the last group of its topic ─▶ a warning
                                                 └ the time after which it ends ─▶ deleted, except default and the only
                                                                                   group

A reader is a consumer, a request for messages, or a lease. The last group of a topic is the one that holds back the
most messages. The time is that of the group itself, if it has one, or `group_idle_seconds` of its topic (`end_of`).
Topics whose groups have times of their own are checked at every tick.

An ephemeral group ends with its last consumer, so not before it has had one. In the first minute after a startup none
ends: its consumers connect again. Only time in which the broker runs counts: of a gap between two ticks, as when the
process was stopped, at most two periods count. A restart resets the times.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Final

import structlog

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import end_of
from miniqueue.broker.runtime.tasks import SingleTask
from miniqueue.errors import MiniqueueError

log = structlog.get_logger()

#: Interval between two checks of all groups.
LOOK_SECONDS: Final = 60.0
#: Interval between two warnings about the same group.
DAY_SECONDS: Final = 86_400.0
#: Time after a startup in which no ephemeral group ends.
STARTUP_SECONDS: Final = 60.0
#: Groups that one event-loop iteration checks, so that it stays short.
GROUPS_IN_TURN: Final = 100

#: Deletes a group; raises MiniqueueError.
Delete = Callable[[Group], None]


class IdleGroups:
    """Checks which groups are read: once a minute, or at every tick if groups of the topic have times of their own.

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
        self._unnoted_seconds = self._unnoted_seconds_of_timed = self._running_seconds = 0.0
        self._looking, self._looking_at_timed = SingleTask(engine.spawn), SingleTask(engine.spawn)
        self._timed: dict[Topic, None] = {}  # topics whose groups have times of their own
        self._unused: set[Group] = set()  # ephemeral groups that have had no consumer yet

    def changed(self, topic: Topic) -> None:
        """Check a topic at every tick if groups of it have times of their own."""
        if topic.id is not None and (topic.settings.idle_groups or topic.settings.ephemeral_groups):
            self._timed[topic] = None
        else:
            self._timed.pop(topic, None)

    def restored(self) -> None:
        """Begin again, at startup or after a fault."""
        self._running_seconds = 0.0
        self._timed.clear()
        self._unused.clear()

    def expect_consumer(self, group: Group) -> None:
        """Do not end a new ephemeral group before it has had a consumer."""
        group.was_read = False
        self._unused.add(group)

    def tick(self, delete: Delete) -> None:
        """Check the groups whose turn it is, unless a check is in progress; call `delete` for groups that end."""
        now = self._clock.monotonic()
        step_seconds = min(now - self._ticked_at, self._max_step_seconds)
        self._ticked_at = now
        self._running_seconds += step_seconds
        self._unnoted_seconds += step_seconds
        self._unnoted_seconds_of_timed += step_seconds
        if self._unnoted_seconds >= LOOK_SECONDS and not self._looking.is_running:
            seconds, self._unnoted_seconds = self._unnoted_seconds, 0.0
            others = [topic for topic in self._topics.values() if topic not in self._timed]
            self._looking.start(self._look(others, seconds, delete))
        self._timed = {topic: None for topic in self._timed if topic.id is not None}
        self._unused = {group for group in self._unused if group.id is not None}
        if self._timed and not self._looking_at_timed.is_running:
            seconds, self._unnoted_seconds_of_timed = self._unnoted_seconds_of_timed, 0.0
            self._looking_at_timed.start(self._look(list(self._timed), seconds, delete))
        elif not self._timed:
            self._unnoted_seconds_of_timed = 0.0

    async def _look(self, topics: list[Topic], seconds: float, delete: Delete) -> None:
        async with aclosing(self._share.in_turns(_awake_groups(topics, seconds), GROUPS_IN_TURN)) as groups:
            async for group in groups:
                if group.id is not None and self._look_at(group, seconds):
                    _end(group, delete)
                    await asyncio.sleep(0)  # a deletion takes as long as all other checks of an iteration

    def _look_at(self, group: Group, seconds: float) -> bool:
        """Count the time without a reader, and warn; return whether the group ends."""
        before = group.unread_seconds
        if _is_read(group):
            group.unread_seconds = 0.0
            self._unused.discard(group)
            return False
        group.unread_seconds += seconds
        if group.unread_seconds // DAY_SECONDS > before // DAY_SECONDS and not _is_only(group):
            _warn(group)
            return False
        return group.topic.settings.ends_groups and self._is_over(group)

    def _is_over(self, group: Group) -> bool:
        """Whether a group that has no reader ends now."""
        idle_seconds, setting = end_of(group)
        if setting == "ephemeral_groups":
            if group in self._unused or self._running_seconds < STARTUP_SECONDS:
                return False
        elif not idle_seconds:
            return False
        return group.unread_seconds >= idle_seconds and group is not group.topic.default and not _is_only(group)


def _awake_groups(topics: Iterable[Topic], seconds: float) -> Iterator[Group]:
    """Yield the groups of topics that are awake; count the time of topics at rest, which hold back no message."""
    for topic in topics:
        if topic.at_rest is not None:
            topic.at_rest.unread_seconds += seconds
        elif topic.id is not None and topic.fault is None:
            yield from topic.existing_groups


def _is_only(group: Group) -> bool:
    """Whether a group is the only one of its topic; takes time with the number of groups."""
    return len(group.topic.existing_groups) == 1


def _end(group: Group, delete: Delete) -> None:
    fields = _fields(group) | {"setting": end_of(group).setting}
    try:
        delete(group)
    except MiniqueueError as exc:
        log.warning("a group that no client reads was not deleted; it is tried again", error=str(exc), **fields)
    else:
        log.warning("a group that no client reads was deleted", **fields)


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
