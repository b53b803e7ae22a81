"""Dead letters: messages that came back too often, were rejected, or expired, go to a topic of their own.

    comes back ─▶ deliveries < max_deliveries ─▶ to its place, or after the delay of the retry policy
                    └ not less ─▶ dead-letter topic, with its origin, in the same commit
    rejected ────────────────────┘     └ no room there: it comes back as if there were no limit
    its time is over ─▶ dead-letter topic, where the settings say so; dropped when there is no room there
    no room for it ───▶ dead-letter topic, where the limit policy says so; what comes is refused without room there

A dead letter is not moved again when it comes back too often in its turn: so there are no loops. One that is rejected,
or for which there is no room, is dropped. Dead letters enter a topic that is paused on the way in, which is meant for
those who publish: what has nowhere to go would come back for ever.
"""

import random
from collections.abc import Callable, Iterable
from functools import partial

from miniqueue.broker.clock import Clock
from miniqueue.broker.lanes import Content
from miniqueue.broker.limits import Room
from miniqueue.broker.topic import Topic
from miniqueue.broker.trace import Source, place_of
from miniqueue.broker.transfer import Transfer
from miniqueue.core import attributes, returning
from miniqueue.core.attributes import Origin, is_for
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held
from miniqueue.core.lanes import lane, priority_of
from miniqueue.core.lease import Lease
from miniqueue.core.limit_policy import LimitPolicy
from miniqueue.core.message import Record
from miniqueue.core.topic_settings import TopicSettings
from miniqueue.core.tracing import Kind
from miniqueue.errors import CorruptionError, FormatVersionError, InvalidTopicError, LimitReachedError

#: Why a message is a dead letter that came back too often.
MAX_DELIVERIES = b"max_deliveries"
#: Why one is whose time was over.
EXPIRED = b"expired"
#: Why one is for which its topic had no room.
LIMIT = b"limit"
#: What counts for the delay of the retry policy.
_FAILURES = ("nacks", "timeouts")


class DeadLetters:
    """Moves messages that are given up, and knows which those are.

    Args:
      transfer: puts them into their topic.
      clock: tells when they died.
      due_at_ms: returns when a message is due that is delayed for so many seconds.
      chance: returns any number from 0 to 1.
    """

    def __init__(
        self,
        transfer: Transfer,
        clock: Clock,
        due_at_ms: Callable[[float], int],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._transfer = transfer
        self._clock = clock
        self._due_at_ms = due_at_ms
        self._chance = chance

    def apply_settings(self, topic: Topic) -> None:
        """Have what comes back to `topic` treated as its settings say."""
        settings = topic.settings
        is_needed = settings.max_deliveries or settings.has_retry_delay
        for cursor in topic.cursors:
            cursor.policy = _Policy(self, topic, cursor, settings) if is_needed else None

    def bury(self, topic: Topic, cursor: GroupCursor, record: Record) -> bool:
        """Make a message that is coming back a dead letter; False when it is one already, or there is no room."""
        return self._bury(topic, cursor, [record], MAX_DELIVERIES, _nothing)

    def reject(self, topic: Topic, held: Iterable[Held], reason: bytes) -> None:
        """Make messages dead letters; those that are drop, and those without room come back together, as by NACK."""
        returning.nack_all([one for one in held if not self._give_up(topic, *one, reason)])

    def _give_up(self, topic: Topic, cursor: GroupCursor, lease: Lease, reason: bytes) -> bool:
        """Make the messages of a lease dead letters, or drop them; False when there is no room."""
        records = lease.records()
        letters = [record for record in records if not _is_dead_letter(record)]
        leave = partial(_reject, cursor, lease, reason, len(letters))
        if letters:
            return self._bury(topic, cursor, letters, reason, leave)
        leave()
        return True

    def left(self, topic: Topic) -> Room:
        """Return how many dead letters there is room for, and for how many bytes of them."""
        return self._transfer.left(topic.settings.dead_letters_of(topic.name))

    def may_bury(self, topic: Topic, over: Room) -> bool:
        """Whether what is over the limits of a topic can become dead letters."""
        left = self.left(topic)
        return left.messages >= max(1, over.messages) and left.size_bytes >= max(1, over.size_bytes)

    def bury_oldest(self, topic: Topic, cursor: GroupCursor, lease: Lease) -> None:
        """Make messages dead letters that were leased for want of room; there is some `left`."""
        group = topic.group_of(cursor).name
        own = [record for record in lease.records() if is_for(record.attributes, group)]
        letters = [record for record in own if not _is_dead_letter(record)]
        cursor.drop(lease, moved_count=len(letters))
        contents = [self._letter(topic, cursor, record, LIMIT) for record in letters]
        name = topic.settings.dead_letters_of(topic.name)
        _note(cursor, letters, self._transfer.push(name, contents), name)

    def expire(self, topic: Topic, cursor: GroupCursor, lease: Lease) -> None:
        """Make messages dead letters whose time is over; those that are drop, and so do all where there is no room."""
        letters = [record for record in lease.records() if not _is_dead_letter(record)]
        leave = partial(cursor.drop, lease, Kind.EXPIRED, moved_count=len(letters))
        if not letters or not self._bury(topic, cursor, letters, EXPIRED, leave):
            cursor.drop(lease, Kind.EXPIRED)

    def retry_at_ms(self, settings: TopicSettings, record: Record) -> int:
        """Return when a message that failed is due again."""
        return_count = record.counts.nacks + record.counts.timeouts
        return self._due_at_ms(settings.retry_seconds(return_count, self._chance()))

    def _bury(
        self, topic: Topic, cursor: GroupCursor, records: list[Record], reason: bytes, leave: Callable[[], None]
    ) -> bool:
        if any(map(_is_dead_letter, records)):
            return False
        contents = [self._letter(topic, cursor, record, reason) for record in records]
        try:
            name = topic.settings.dead_letters_of(topic.name)
            dead = self._transfer.room(name, contents, policies=(LimitPolicy.DROP_OLDEST,))
        except (InvalidTopicError, LimitReachedError):
            return False
        leave()
        _note(cursor, records, self._transfer.add(dead, contents), dead.name)
        return True

    def _letter(self, topic: Topic, cursor: GroupCursor, record: Record, reason: bytes) -> Content:
        """Return a message as a dead letter, which does not expire, keeps its priority, and lets its unique key go."""
        partition = cursor.partition
        origin = Origin(
            topic.name,
            partition,
            record.seq,
            record.published_at_ms,
            self._clock.now_ms(),
            record.counts,
            reason,
            topic.group_of(cursor).name,
        )
        found = attributes.decode(record.attributes)
        found = found._replace(expires_at_ms=0, origin=origin, reply_to=b"", unique_key=b"", only_for=b"")
        source = Source(Kind.ARRIVED, place_of(topic.name, partition), record.seq + 1)
        return Content(record.payload, found.encode(), lane(0, priority_of(partition)), source)


class _Policy:
    """What the settings of one topic say about what comes back to one of its partitions."""

    __slots__ = ("_cursor", "_dead_letters", "_settings", "_topic")

    def __init__(self, dead_letters: DeadLetters, topic: Topic, cursor: GroupCursor, settings: TopicSettings) -> None:
        self._dead_letters = dead_letters
        self._topic = topic
        self._cursor = cursor
        self._settings = settings

    def bury(self, record: Record) -> bool:
        """Make the message a dead letter if it was delivered as often as it may be; say so."""
        max_deliveries = self._settings.max_deliveries
        if not max_deliveries or sum(record.counts) < max_deliveries:
            return False
        return self._dead_letters.bury(self._topic, self._cursor, record)

    def due_at_ms(self, record: Record, cause: str) -> int | None:
        """Return when the message may be handed out again after it failed, or None."""
        if cause not in _FAILURES or not self._settings.has_retry_delay:
            return None
        return self._dead_letters.retry_at_ms(self._settings, record)


def _is_dead_letter(record: Record) -> bool:
    """Tell whether a message is one already; what a newer version wrote is left where it is."""
    try:
        return bool(record.attributes) and attributes.decode(record.attributes).origin is not None
    except (CorruptionError, FormatVersionError):
        return True


def _reject(cursor: GroupCursor, lease: Lease, reason: bytes, moved_count: int) -> None:
    cursor.drop(lease, None, moved_count=moved_count)
    if cursor.trace is not None:
        cursor.trace.note(Kind.REJECTED, lease, reason)


def _note(cursor: GroupCursor, records: list[Record], places: list[tuple[int, int]], topic: bytes) -> None:
    """Note where messages have gone, if that is to be known."""
    if cursor.trace is not None:
        cursor.trace.moved(Kind.DEAD_LETTERED, [record.seq for record in records], places, topic)


def _nothing() -> None:
    """Do nothing: the message has left already."""
