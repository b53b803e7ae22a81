"""How many topics there may be, and how much each may hold; and the count of every limit that was reached.

    publish ─▶ room for the topic? ─ no ─▶ LimitReachedError
               room in the topic?  ─ yes ▶ stored
                    └ no ─ refuse ──────▶ TopicFullError, nothing is stored
                         └ drop-oldest ─▶ stored, and noted: `trimming` drops what waits longest, in the same commit
                         │    └ what is leased, and what is not yet committed, leaves no room ─▶ TopicFullError
                         └ dead-letter ─▶ the same, but what waits longest becomes dead letters
                              └ there is no room for dead letters either ─▶ TopicFullError

What a topic holds is known as counts, so the check costs the same for one message and for thousands.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from operator import add
from typing import NamedTuple

from miniqueue.broker.topic import Topic
from miniqueue.core.limit_policy import ALL_POLICIES, LimitPolicy
from miniqueue.core.prefetch import MAX_PREFETCH, check_prefetch
from miniqueue.errors import LimitReachedError, PayloadTooLargeError, TopicFullError


class Limit(StrEnum):
    """What may be reached; the names are those of settings, where there is one."""

    CONNECTIONS = "max-connections"
    CONNECTIONS_PER_ADDRESS = "max-connections-per-address"
    DEDUP_IDS = "max-dedup-ids"
    GROUPS = "max-groups"
    IDLE_TIMEOUT = "idle-timeout"
    MESSAGE_SIZE = "max-message-size"
    PREFETCH = "max-prefetch"
    SCHEDULES = "max-schedules"
    TOPICS = "max-topics"
    TOPIC_BYTES = "max-topic-bytes"
    TOPIC_MESSAGES = "max-topic-messages"
    UNCOMMITTED = "max-uncommitted"


class LimitCounts:
    """How often each limit was reached since the start."""

    def __init__(self) -> None:
        self._counts: Counter[Limit] = Counter()

    @property
    def counts(self) -> Mapping[Limit, int]:
        """By limit; one that never was may be missing."""
        return self._counts

    def reached(self, limit: Limit) -> None:
        """Count it."""
        self._counts[limit] += 1

    def note(self, error: Exception) -> None:
        """Count an error that says that a message is too large; others are counted where they are raised."""
        if isinstance(error, PayloadTooLargeError):
            self.reached(Limit.MESSAGE_SIZE)


class Room(NamedTuple):
    """Messages and the bytes of their payloads; what is over a limit may be below 0 in one of them."""

    messages: int
    size_bytes: int

    @property
    def is_over(self) -> bool:
        """Whether this, as what is over the limits, must go."""
        return self.messages > 0 or self.size_bytes > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """What an operator has set; None and 0 are no limit.

    Attributes:
      max_topics: that exist.
      max_topic_messages: not acknowledged, in one topic.
      max_topic_bytes: of their payloads.
      max_dedup_ids: that are in the windows of all topics.
      max_groups: of one topic, also those that somebody waits in.
      max_schedules: that there are.
      policy: what gives way when a topic is full, where its settings do not say.
      max_prefetch: messages that one consumer may ask for.
      max_uncommitted_bytes: of payloads that wait for their commit.
    """

    max_topics: int = 0
    max_topic_messages: int = 0
    max_topic_bytes: int = 0
    max_dedup_ids: int = 0
    max_groups: int = 0
    max_schedules: int = 0
    policy: LimitPolicy = LimitPolicy.REFUSE
    max_prefetch: int = MAX_PREFETCH
    max_uncommitted_bytes: int = 0


class Quota:
    """Decides what there is room for.

    Args:
      limits: what is allowed.
      counts: where a refusal is counted.

    Attributes:
      max_dedup_ids: that are remembered at a time.
      may_bury: says whether what is over the limits of a topic can become dead letters.
    """

    def __init__(self, limits: BrokerLimits, counts: LimitCounts) -> None:
        self._max_topics = limits.max_topics or sys.maxsize
        self._max_messages = limits.max_topic_messages or sys.maxsize
        self._max_bytes = limits.max_topic_bytes or sys.maxsize
        self.max_dedup_ids = limits.max_dedup_ids or sys.maxsize
        self._max_groups = limits.max_groups or sys.maxsize
        self._max_schedules = limits.max_schedules or sys.maxsize
        self._policy = limits.policy
        self.may_bury: Callable[[Topic, Room], bool] = _never
        self._max_prefetch = limits.max_prefetch
        self._counts = counts

    def check_prefetch(self, prefetch: int) -> None:
        """Raise InvalidPrefetchError unless a consumer may hold so many messages."""
        if prefetch > self._max_prefetch:
            self._counts.reached(Limit.PREFETCH)
        check_prefetch(prefetch, self._max_prefetch)

    def admit_dedup_id(self, count: int) -> None:
        """Raise LimitReachedError unless one more dedup id may be remembered than `count`."""
        if count >= self.max_dedup_ids:
            self._counts.reached(Limit.DEDUP_IDS)
            raise LimitReachedError(f"as many dedup ids are in their windows as may be, {count} (-max-dedup-ids)")

    def admit_group(self, topic: Topic) -> None:
        """Raise LimitReachedError unless a topic may have one more group."""
        if len(topic.groups) >= self._max_groups:  # the default group is there, even if it does not exist
            count = sum(group.id is not None or group.consumer_count > 0 for group in topic.groups.values())
            if count >= self._max_groups:
                self._counts.reached(Limit.GROUPS)
                raise LimitReachedError(f"the topic has as many groups as it may have, {count} (-max-groups)")

    def admit_schedule(self, count: int) -> None:
        """Raise LimitReachedError unless there may be one more schedule than `count`."""
        if count >= self._max_schedules:
            self._counts.reached(Limit.SCHEDULES)
            raise LimitReachedError(f"there are as many schedules as there may be, {count} (-max-schedules)")

    def admit_topic(
        self,
        topic: Topic,
        topic_count: int,
        payloads: Sequence[bytes],
        size_bytes: int,
        attributes: Sequence[bytes] | None = None,
    ) -> None:
        """Raise LimitReachedError unless there may be one more topic than `topic_count`, with these messages."""
        if topic_count >= self._max_topics:
            self._counts.reached(Limit.TOPICS)
            raise LimitReachedError(f"there are as many topics as there may be, {topic_count} (-max-topics)")
        self.apply_settings(topic)
        self.admit(topic, payloads, size_bytes, attributes)

    def apply_settings(self, topic: Topic) -> None:
        """Let a topic hold what its settings say, and no more than any."""
        settings = topic.settings
        topic.max_messages = min(settings.max_messages or sys.maxsize, self._max_messages)
        topic.max_bytes = min(settings.max_bytes or sys.maxsize, self._max_bytes)
        topic.is_limited = min(topic.max_messages, topic.max_bytes) < sys.maxsize
        topic.held_at_most = None  # what comes while there is no limit is not counted

    def policy_of(self, topic: Topic) -> LimitPolicy:
        """Return what gives way when a topic is full."""
        chosen = topic.settings.limit_policy
        return self._policy if chosen is None else LimitPolicy(chosen)

    def excess(self, topic: Topic) -> Room:
        """Return what a topic holds over its limits."""
        held_count, held_bytes = topic.held()
        return Room(held_count - topic.max_messages, held_bytes - topic.max_bytes)

    def room(self, topic: Topic) -> Room:
        """Return what a topic has room for, without anything giving way; all where what waits longest is dropped."""
        if self.policy_of(topic) is LimitPolicy.DROP_OLDEST:
            return Room(sys.maxsize, sys.maxsize)
        excess = self.excess(topic)
        return Room(-excess.messages, -excess.size_bytes)

    def admit(
        self,
        topic: Topic,
        payloads: Sequence[bytes],
        size_bytes: int,
        attributes: Sequence[bytes] | None = None,
        *,
        policies: Container[LimitPolicy] = ALL_POLICIES,
    ) -> bool:
        """Say whether older messages must give way to these; raise TopicFullError if they cannot be taken.

        Args:
          topic: that they are for.
          payloads: of the messages.
          size_bytes: of payloads and attributes, all together.
          attributes: of each, encoded, if there are any.
          policies: those by which older messages may give way to these; under any other they are refused.
        """
        if not topic.is_limited:
            return False
        held = topic.held_at_most
        if held is not None and held.take(len(payloads), size_bytes, topic.max_messages, topic.max_bytes):
            return False
        over = _over(topic, len(payloads), size_bytes)
        if not over.is_over:
            return False
        if self._may_give_way(topic, over, policies):
            waiting_count, waiting_bytes = (topic.last_group or topic.default).waiting()
            over = Room(over.messages - waiting_count, over.size_bytes - waiting_bytes)
            if not over.is_over:
                if topic.held_at_most is not None:
                    topic.held_at_most.add(len(payloads), size_bytes)
                return True
        sizes = map(len, payloads) if attributes is None else map(add, map(len, payloads), map(len, attributes))
        fitting_count = _fitting(sizes, len(payloads) - over.messages, size_bytes - over.size_bytes)
        raise self._full(topic, over, fitting_count)

    def _may_give_way(self, topic: Topic, over: Room, policies: Container[LimitPolicy]) -> bool:
        policy = self.policy_of(topic)
        if policy not in policies:
            return False
        if policy is LimitPolicy.DEAD_LETTER:
            return self.may_bury(topic, over)
        return policy is LimitPolicy.DROP_OLDEST

    def _full(self, topic: Topic, over: Room, fitting_count: int) -> TopicFullError:
        """Return what to raise for a topic that is full, and count it."""
        if over.messages > 0:
            self._counts.reached(Limit.TOPIC_MESSAGES)
            is_own = topic.max_messages == topic.settings.max_messages
            name = "max_messages of the topic" if is_own else f"-{Limit.TOPIC_MESSAGES}"
            return TopicFullError("messages", name, fitting_count)
        self._counts.reached(Limit.TOPIC_BYTES)
        name = "max_bytes of the topic" if topic.max_bytes == topic.settings.max_bytes else f"-{Limit.TOPIC_BYTES}"
        return TopicFullError("bytes of messages", name, fitting_count)


def _over(topic: Topic, count: int, size_bytes: int) -> Room:
    """Return what a topic would hold over its limits with so much more; where that is nothing, it is added."""
    held = topic.held_at_most
    if held is None:
        held = topic.count_held()
    over = Room(held.messages + count - topic.max_messages, held.size_bytes + size_bytes - topic.max_bytes)
    if over.is_over and not held.is_exact:
        held = topic.count_held()
        over = Room(held.messages + count - topic.max_messages, held.size_bytes + size_bytes - topic.max_bytes)
    if not over.is_over:
        held.add(count, size_bytes)
    return over


def _never(_topic: Topic, _over: Room) -> bool:
    return False


def _fitting(sizes: Iterable[int], max_messages: int, max_bytes: int) -> int:
    """Return how many of the first messages, which are so long, are within both."""
    in_bytes = bisect_right(list(accumulate(sizes)), max_bytes)
    return max(0, min(max_messages, in_bytes))
