"""Removes expired messages: drops or dead-letters them, depending on the topic's settings.

It also skips messages that are for another group only: for this group, they never existed.

    delivery      take ─▶ expired? ─ no ─▶ to the consumer
                    ▲        └ yes ─▶ removed ─┐      a message without attributes, in a topic without a TTL, is not
                    └──────────────────────────┘      checked
    at the head   tick ─▶ `expiry_sweep` finds expired messages where no consumer reads ─▶ removed

So no consumer is ever delivered a message that has expired by the wall clock, and expired messages are removed even if
no consumer reads the topic. A leased message is not touched until it is returned. One event-loop iteration removes a
limited number of messages, so that other work can continue.
"""

from collections.abc import Callable

from miniqueue.broker.dead_letters import dead_letters
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.group import expired, removing
from miniqueue.core.keyed.reader import keyed_of

#: Maximum number of messages that one event-loop iteration removes. Dropping is cheap, since it drops whole runs;
#: dead letters are moved one by one. A lease counts as `DROPPED_LEASE` or `MOVED_LEASE` messages more; a message with
#: attributes that is dropped counts as `DROPPED_WITH_ATTRIBUTES`, because each is inspected.
MAX_DROPPED_IN_TURN = 8192
DROPPED_LEASE = 60
DROPPED_WITH_ATTRIBUTES = 16
MAX_MOVED_IN_TURN = 100
MOVED_LEASE = 1


def sift(
    engine: Engine, group: Group, taken: CursorLease, take: Callable[[], CursorLease | None]
) -> list[CursorLease] | None:
    """Return the deliverable leases of `taken`, or else of the next lease that `take` takes; remove expired messages.

    One lease can be split into several. The list is empty if `take` finds no more messages. The result is None if
    more messages have expired than one event-loop iteration may remove.
    """
    topic, now_ms = group.topic, engine.clock.now_ms()
    room = max_in_turn(topic)
    remaining: CursorLease | None = taken
    while remaining is not None:
        cursor, lease = remaining
        live: list[CursorLease] = []
        for part, fate in list(expired.cut_by_fate(cursor, lease, now_ms, topic.ttl_ms, group.name)):
            if fate is not expired.Fate.LIVE:
                _remove(engine, group, cursor, part)
                if group.flow is not None:
                    group.flow.spend(-part.count)
                if (keyed := keyed_of(cursor)) is not None:
                    keyed.unspend(part)
            else:
                live.append((cursor, part))
        if live:
            return live
        room -= _cost_of(topic, lease)
        if room <= 0:
            return None
        remaining = take()
    return []


def give_up_heads(engine: Engine, group: Group, cursor: GroupCursor) -> int:
    """Remove expired messages at the heads of a cursor's ranges; return how many were removed.

    It removes at most as many as one event-loop iteration may. If a range must be loaded from the store first, it
    sets `cursor.blocked_on`.
    """
    topic = group.topic
    now_ms, room = engine.clock.now_ms(), max_in_turn(topic)
    count = 0
    while room > 0:
        lease = expired.take_expired(cursor, now_ms, topic.ttl_ms, group.name, room)
        if lease is None:
            break
        cost = _cost_of(topic, lease)
        _remove(engine, group, cursor, lease)
        count += lease.count
        room -= cost
    removing.hold_back(cursor)
    return count


def _remove(engine: Engine, group: Group, cursor: GroupCursor, lease: Lease) -> None:
    """Remove the messages of a lease, which have one fate in common; it is not LIVE."""
    topic = group.topic
    if expired.is_foreign(lease, group.name):
        cursor.skip(lease)
    else:
        topic.expired_count += lease.count
        if topic.settings.moves_expired:
            dead_letters.expire(engine, topic, cursor, lease)
        else:
            cursor.drop(lease, Kind.EXPIRED)
    engine.journal.touch(topic)
    engine.journal.committer.request_soon()


def max_in_turn(topic: Topic) -> int:
    """Return the maximum number of expired messages of a topic that one event-loop iteration removes."""
    return MAX_MOVED_IN_TURN if topic.settings.moves_expired else MAX_DROPPED_IN_TURN


def _cost_of(topic: Topic, lease: Lease) -> int:
    """Return as how many messages of `max_in_turn` a lease counts."""
    if topic.settings.moves_expired:
        return MOVED_LEASE + lease.count
    return DROPPED_LEASE + (lease.count if lease.attributes is None else DROPPED_WITH_ATTRIBUTES * lease.count)
