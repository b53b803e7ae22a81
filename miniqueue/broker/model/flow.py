"""Controls the flow of a group's messages: the order of their keys, and the topic's limits on concurrency and rate.

    take ─▶ below the concurrency limit? below the rate limit? ─ no ─▶ no message, as if none were ready
                └ yes ─▶ the cursors, by key if the settings require it ─▶ counted
    a lease ends      ─▶ waiting consumers are served in the next event-loop iteration
    time passes       ─▶ waiting consumers are served by a timer, when the next message is allowed

A plain topic has no flow control. If partitions were added, `core.group.growth` decides which messages wait for older
messages, in ordered topics and for members; the dispatcher checks again after each commit of the topic, and when
messages were loaded.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import filterfalse
from operator import attrgetter

from miniqueue.broker.model.parts import FlowRules
from miniqueue.broker.model.topic import Group
from miniqueue.broker.runtime.clock import Clock
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.group.growth import OldFirst
from miniqueue.core.group.removing import hold_back_all
from miniqueue.core.keyed.key_turns import KeyTurns
from miniqueue.core.keyed.pace import RateLimiter
from miniqueue.core.keyed.reader import LateReader, arrange_all, keyed_of
from miniqueue.core.settings.settings import TopicSettings

_keyed, _is_draining = attrgetter("keyed"), attrgetter("is_draining")

#: Minimum duration of a timer, so that messages that are due at once do not keep the event loop busy.
MIN_WAIT_SECONDS = 0.001


#: The rules of a topic without keys and limits.
PLAIN = FlowRules()


class FlowControl:
    """The flow control of one group.

    Args:
      group: the group.
      rules: the limits, and the rules for keys.
      clock: the clock for the rate limits.
      dispatch: serves the consumers that wait in the group.

    Attributes:
      rules: the limits, and the rules for keys.
      arranged: the cursors of the group to which the rules for keys have been applied.
      late: stands for the readers of cursors that have delivered nothing by key yet; None without rules for keys.
    """

    def __init__(self, group: Group, rules: FlowRules, clock: Clock, dispatch: Callable[[Group], None]) -> None:
        self.rules = rules
        self.arranged: Sequence[GroupCursor] = ()
        self.late: LateReader | None = None if rules.keys is None else LateReader(rules.keys)
        self._group = group
        self._clock = clock
        self._dispatch = dispatch
        self._pace = RateLimiter(rules.per_second) if rules.per_second else None
        per_second = rules.per_second or (rules.keys is not None and rules.keys.per_second)
        self._has_caps = bool(rules.max_leased or per_second)
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def room(self, max_count: int) -> int:
        """Return how many of `max_count` messages may be delivered now."""
        if not self._has_caps:
            return max_count
        cursors, now = self._group.cursors, self._clock.monotonic()
        if self.rules.max_leased:
            max_count = min(max_count, self.rules.max_leased - sum(cursor.leased_count for cursor in cursors))
            if max_count <= 0:
                return 0  # Only the end of a lease makes room, not time.
        if self._pace is not None:
            max_count = min(max_count, self._pace.room(now))
            if not max_count:
                self._wait(self._pace.opens_at, now)
        opens_at = [turns.opens_at for turns in self._turns(now) if turns.opens_at is not None] if max_count else []
        if opens_at:
            self._wait(min(opens_at), now)
        return max_count

    def _turns(self, now: float) -> list[KeyTurns]:
        """Return the turns of the keys of all partitions, with the current time set."""
        if self.late is not None:
            self.late.now = now
        turns = [keyed.turns for cursor in self._group.cursors if (keyed := keyed_of(cursor)) is not None]
        for key_turns in turns:
            key_turns.now = now
        return turns

    def spend(self, count: int) -> None:
        """Count delivered messages; a negative number takes back messages that were not delivered after all."""
        if self._pace is not None:
            self._pace.spend(count, self._clock.monotonic())

    def settled(self) -> None:
        """Serve the consumers that wait soon: the settled message may have blocked others."""
        if self._soon is None and self._group.waiters:
            self._soon = asyncio.get_running_loop().call_soon(self._wake)

    def _wait(self, opens_at: float, now: float) -> None:
        """Serve the consumers that wait as soon as the rate limits allow the next message."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(opens_at - now, MIN_WAIT_SECONDS)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._wake_in_time)

    def _wake_in_time(self) -> None:
        self._timer = None
        self._wake()

    def _wake(self) -> None:
        self._soon = None
        # Otherwise the rules have changed, or the topic was deleted.
        if self._group.flow is self:
            self._dispatch(self._group)


def apply_to(group: Group, clock: Clock, dispatch: Callable[[Group], None]) -> None:
    """Apply the settings of its topic to the flow of a group; leases stay as they are.

    Args:
      group: the group; its cursors may have changed.
      clock: the clock for the rate limits.
      dispatch: serves the consumers that wait in a group.
    """
    rules, flow = rules_of(group.topic.settings), group.flow
    if rules != (PLAIN if flow is None else flow.rules):
        flow = group.flow = None if rules == PLAIN else FlowControl(group, rules, clock, dispatch)
    # There may be thousands of cursors in each of many groups, and most have been arranged before.
    cursors: Sequence[GroupCursor] = ()
    if rules.keys is None:
        is_arranged = all(map(_is_draining, filter(None, map(_keyed, group.cursors))))
        cursors = () if is_arranged else group.cursors
    elif flow is not None and flow.arranged is not group.cursors:
        cursors = [*filterfalse(set(flow.arranged).__contains__, group.cursors)]
    if cursors:
        arrange_all(cursors, None if flow is None else flow.late)
    if flow is not None:
        flow.arranged = group.cursors
    _older_first(group, dispatch)


def _older_first(group: Group, dispatch: Callable[[Group], None]) -> None:
    """Hold back messages that must not overtake older ones, if partitions were added."""
    topic, before = group.topic, group.old_first
    group.old_first = None
    is_ordered = topic.settings.ordered
    if topic.growths and (is_ordered or group.membership is not None):
        arguments = topic.growths, topic.partition_count, group.cursors
        if before is not None and before.is_for(*arguments, is_ordered=is_ordered):
            group.old_first = before
            before.hold()  # readers may be new
        else:
            group.old_first = OldFirst(*arguments, is_ordered=is_ordered)
        # A removal may have inspected a cursor before anything was held back.
        hold_back_all(group.cursors)
    elif before is not None:
        before.end()
    if before is not None and group.waiters:
        asyncio.get_running_loop().call_soon(dispatch, group)


def rules_of(settings: TopicSettings) -> FlowRules:
    """Return the rules for the flow of messages that settings define."""
    return FlowRules(settings.key_rules, settings.max_concurrency, settings.max_rate)
