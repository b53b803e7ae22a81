"""How the messages of a group flow: by their keys, and within the caps of its topic.

    take ─▶ fewer leased than may be? fewer in this second? ─ no ─▶ nothing, as if there were none
                └ yes ─▶ the cursors, by key where the settings say so ─▶ counted
    a lease ends      ─▶ whoever waits is served in the next turn of the loop
    time gives room   ─▶ the same, by a timer for the first message that may go then

A plain topic has no flow. Where partitions were added `core.growth` says what waits for what is older, in ordered
topics and for members; the dispatcher asks it again with each commit of the topic, and when something was loaded.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from miniqueue.broker.clock import Clock
from miniqueue.broker.group import Group
from miniqueue.broker.topic import Topic
from miniqueue.core.growth import OldFirst
from miniqueue.core.key_queue import KeyRules
from miniqueue.core.keyed import arrange
from miniqueue.core.pace import Pace
from miniqueue.core.purging import hold_back
from miniqueue.core.topic_settings import TopicSettings
from miniqueue.core.turns import Turns

#: No timer is shorter, so that what is due at once does not keep the loop busy.
MIN_WAIT_SECONDS = 0.001


class FlowRules(NamedTuple):
    """What a topic's settings say of the flow of its messages.

    Attributes:
      keys: for each key; None to hand out plainly.
      max_leased: messages at a time, in a group; 0 for no limit.
      per_second: messages each second, in a group; 0 for no limit.
    """

    keys: KeyRules | None = None
    max_leased: int = 0
    per_second: float = 0.0


PLAIN = FlowRules()


class Flow:
    """The flow of one group.

    Args:
      group: whose messages these are.
      rules: how they flow.
      clock: tells how many may go now.
      dispatch: serves those who wait in the group.
    """

    def __init__(self, group: Group, rules: FlowRules, clock: Clock, dispatch: Callable[[Group], None]) -> None:
        self.rules = rules
        self._group = group
        self._clock = clock
        self._dispatch = dispatch
        self._pace = Pace(rules.per_second) if rules.per_second else None
        per_second = rules.per_second or (rules.keys is not None and rules.keys.per_second)
        self._has_caps = bool(rules.max_leased or per_second)
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def room(self, max_count: int) -> int:
        """Return how many of `max_count` messages may be handed out now."""
        if not self._has_caps:
            return max_count
        cursors, now = self._group.cursors, self._clock.monotonic()
        if self.rules.max_leased:
            max_count = min(max_count, self.rules.max_leased - sum(cursor.leased_count for cursor in cursors))
            if max_count <= 0:
                return 0  # time alone gives no room
        if self._pace is not None:
            max_count = min(max_count, self._pace.room(now))
            if not max_count:
                self._wait(self._pace.opens_at, now)
        opens_at = [turns.opens_at for turns in self._turns(now) if turns.opens_at is not None] if max_count else []
        if opens_at:
            self._wait(min(opens_at), now)
        return max_count

    def _turns(self, now: float) -> list[Turns]:
        """Return whose turns are taken by key, which know the time then."""
        turns = [cursor.keyed.turns for cursor in self._group.cursors if cursor.keyed is not None]
        for one in turns:
            one.now = now
        return turns

    def spend(self, count: int) -> None:
        """Count messages that were handed out; negative for those that were not, after all."""
        if self._pace is not None:
            self._pace.spend(count, self._clock.monotonic())

    def settled(self) -> None:
        """Serve who waits, before long: what was settled may have been in the way."""
        if self._soon is None and self._group.waiters:
            self._soon = asyncio.get_running_loop().call_soon(self._wake)

    def _wait(self, opens_at: float, now: float) -> None:
        """Serve who waits as soon as time allows the next message."""
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
        if self._group.flow is self:  # else there are other rules, or the topic was deleted
            self._dispatch(self._group)


class Flows:
    """Gives groups their flows.

    Args:
      clock: for the caps.
      dispatch: serves those who wait in a group.
    """

    def __init__(self, clock: Clock, dispatch: Callable[[Group], None]) -> None:
        self._clock = clock
        self._dispatch = dispatch

    def apply_settings(self, topic: Topic) -> None:
        """Have the messages of a topic flow as its settings say; leases stay as they are."""
        topic.flows = None if rules_of(topic.settings) == PLAIN and not topic.growths else self
        for group in topic.groups.values():
            self.apply_to(group)

    def apply_to(self, group: Group) -> None:
        """Do the same for one group, which may have other cursors now."""
        rules = rules_of(group.topic.settings)
        if rules != (PLAIN if group.flow is None else group.flow.rules):
            group.flow = None if rules == PLAIN else Flow(group, rules, self._clock, self._dispatch)
        for cursor in group.cursors:
            arrange(cursor, rules.keys)
        self._older_first(group)

    def _older_first(self, group: Group) -> None:
        """Hold back what must not overtake, where keys are in order, since partitions were added."""
        topic, before = group.topic, group.old_first
        group.old_first = None
        is_ordered = topic.settings.ordered
        if topic.growths and (is_ordered or group.membership is not None):
            group.old_first = OldFirst(topic.growths, topic.partition_count, group.cursors, is_ordered=is_ordered)
            for cursor in group.cursors:  # one who removes may have looked there before anything was held back
                hold_back(cursor)
        elif before is not None:
            before.end()
        if before is not None and group.waiters:
            asyncio.get_running_loop().call_soon(self._dispatch, group)


def rules_of(settings: TopicSettings) -> FlowRules:
    """Return what settings say of the flow of messages."""
    return FlowRules(settings.key_rules, settings.max_concurrency, settings.max_rate)
