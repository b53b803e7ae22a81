"""Gives up messages whose time is over: they are dropped, or are dead letters, as the topic's settings say.

What is for another group is passed over here, too: for this one it is as if it had never been there.

    handed out    take ─▶ over? ─ no ─▶ to the consumer
                    ▲       └ yes ─▶ given up ─┐        a plain message of a topic without a time to live is not asked
                    └──────────────────────────┘
    at the head   tick ─▶ `sweeping` finds what is over where nobody reads ─▶ given up

So nobody is ever handed a message whose time is over, by the wall clock; and what nobody reads goes all the same. What
is leased is let alone until it comes back. In one turn of the loop only so much is given up: then others go on.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from miniqueue.broker.clock import Clock
from miniqueue.broker.dead_letters import DeadLetters
from miniqueue.broker.group import Group
from miniqueue.broker.journal import Journal
from miniqueue.broker.topic import Topic
from miniqueue.core import expiry, purging
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held
from miniqueue.core.lease import Lease
from miniqueue.core.tracing import Kind

#: Messages that are given up in one turn: dropped by runs, which takes little, or moved one by one.
MAX_DROPPED_IN_TURN = 8192
MAX_MOVED_IN_TURN = 512


class Expirer:
    """Gives messages up.

    Args:
      journal: commits it.
      clock: tells when that must be.
      dead_letters: takes those that are to be dead letters.
      dispatch: called for a group with consumers that wait, in a later turn, when there was too much for one.
    """

    def __init__(
        self, journal: Journal, clock: Clock, dead_letters: DeadLetters, *, dispatch: Callable[[Group], None]
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._dead_letters = dead_letters
        self._dispatch = dispatch

    def apply_settings(self, topic: Topic) -> None:
        """Have a topic's messages expire as its settings say."""
        topic.ttl_ms = topic.settings.ttl_ms

    def sift(self, group: Group, taken: Held, take: Callable[[], Held | None]) -> list[Held]:
        """Return what can be handed out of `taken`, or else of what `take` takes next; give up what has expired.

        What was leased together may be several leases then. There are none when there is nothing, or nothing in this
        turn: then `group.is_expiring` is set.
        """
        topic, now_ms = group.topic, self._clock.now_ms()
        room = max_in_turn(topic)
        left: Held | None = taken
        while left is not None:
            cursor, lease = left
            live: list[Held] = []
            for part, fate in list(expiry.parted(cursor, lease, now_ms, topic.ttl_ms, group.name)):
                if fate is not expiry.Fate.LIVE:
                    self._give_up(group, cursor, part)
                    if group.flow is not None:
                        group.flow.spend(-part.count)
                    if cursor.keyed is not None:
                        cursor.keyed.unspend(part)
                else:
                    live.append((cursor, part))
            if live:
                return live
            room -= lease.count
            if room <= 0:
                self._go_on_later(group)
                break
            left = take()
        return []

    def give_up_heads(self, group: Group, cursor: GroupCursor) -> int:
        """Give up what is over at the heads of a cursor's ranges, as much as one turn may; return how much that was.

        If something must be loaded first, `cursor.blocked_on` is set.
        """
        topic = group.topic
        now_ms, most = self._clock.now_ms(), max_in_turn(topic)
        count = 0
        while count < most:
            lease = expiry.take_over(cursor, now_ms, topic.ttl_ms, group.name, most - count)
            if lease is None:
                break
            self._give_up(group, cursor, lease)
            count += lease.count
        purging.hold_back(cursor)
        return count

    def _give_up(self, group: Group, cursor: GroupCursor, lease: Lease) -> None:
        """Give up a lease of one fate, which is not LIVE."""
        topic = group.topic
        if expiry.is_foreign(lease, group.name):
            cursor.skipped_count += lease.count
            cursor.drop(lease, None)
        else:
            topic.expired_count += lease.count
            if topic.settings.moves_expired:
                self._dead_letters.expire(topic, cursor, lease)
            else:
                cursor.drop(lease, Kind.EXPIRED)
        self._journal.touch(topic)
        self._journal.committer.request_soon()

    def _go_on_later(self, group: Group) -> None:
        if not group.is_expiring:
            group.is_expiring = True
            asyncio.get_running_loop().call_soon(partial(self._go_on, group))

    def _go_on(self, group: Group) -> None:
        group.is_expiring = False
        self._dispatch(group)


def max_in_turn(topic: Topic) -> int:
    """Return how many messages of a topic are given up in one turn."""
    return MAX_MOVED_IN_TURN if topic.settings.moves_expired else MAX_DROPPED_IN_TURN
