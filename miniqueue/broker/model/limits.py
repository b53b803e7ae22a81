"""Limits on the number of topics and on the size of each topic; counts how often each limit was reached.

    publish ─▶ room for the topic? ─ no ─▶ LimitReachedError
               room in the topic?  ─ yes ▶ stored
                    └ no ─ refuse ──────▶ TopicFullError, nothing is stored
                         └ drop-oldest ─▶ stored; `publish.overflow` drops the oldest waiting messages, same commit
                         │    └ leased and uncommitted messages leave no room ─▶ TopicFullError
                         └ dead-letter ─▶ stored, and the oldest waiting messages become dead letters
                              └ no room for dead letters ─▶ TopicFullError

The content of a topic is known as counts, so a check costs the same for one message and for thousands.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from operator import add
from typing import Final, NamedTuple

from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.broker.runtime.notices import NoticeKind, Notices
from miniqueue.core.options.consume import MAX_PREFETCH, check_prefetch
from miniqueue.core.settings.fields import ALL_POLICIES, LimitPolicy
from miniqueue.errors import LimitReachedError, PayloadTooLargeError, TopicFullError


class Limit(StrEnum):
    """The limits; each has the name of its setting, if there is one."""

    CONNECTIONS = "max-connections"
    CONNECTIONS_PER_ADDRESS = "max-connections-per-address"
    DEDUP_IDS = "max-dedup-ids"
    GROUPS = "max-groups"
    IDLE_TIMEOUT = "idle-timeout"
    MESSAGE_SIZE = "max-message-size"
    PARTITIONS = "max-partitions"
    PREFETCH = "max-prefetch"
    SCHEDULES = "max-schedules"
    SHARE = "share"
    TOPICS = "max-topics"
    TOPIC_BYTES = "max-topic-bytes"
    TOPIC_MESSAGES = "max-topic-messages"
    TRANSACTION_BYTES = "max-transaction-bytes"
    UNCOMMITTED = "max-uncommitted"


class LimitCounts:
    """Counts how often each limit was reached since startup, and reports it to clients that listen."""

    def __init__(self) -> None:
        self._notices: Notices | None = None
        self._counts: Counter[Limit] = Counter()

    @property
    def counts(self) -> Mapping[Limit, int]:
        """The counts by limit; a limit that was never reached may be missing."""
        return self._counts

    def report_to(self, notices: Notices) -> None:
        """Report to `notices` that a limit was reached, from now on."""
        self._notices = notices

    def reached(self, limit: Limit) -> None:
        """Count that a limit was reached."""
        self._counts[limit] += 1
        if self._notices is not None and self._notices.is_heard:
            self._notices.count(NoticeKind.LIMIT_REACHED, b"", 1, limit=limit.value)

    def note(self, error: Exception) -> None:
        """Count an error if a message was too large; other errors are counted where they are raised."""
        if isinstance(error, PayloadTooLargeError):
            self.reached(Limit.MESSAGE_SIZE)


#: See `BrokerLimits.rest_seconds`.
REST_SECONDS: Final = 60.0


class Room(NamedTuple):
    """A number of messages and the size of their payloads; for an excess over limits, either can be negative."""

    messages: int
    size_bytes: int

    @property
    def is_over(self) -> bool:
        """Whether this excess exceeds a limit."""
        return self.messages > 0 or self.size_bytes > 0


#: Returns whether the excess over the limits of a topic can become dead letters.
MayDeadLetter = Callable[[Topic, Room], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLimits:
    """The limits that the operator has set; None and 0: unlimited.

    Attributes:
      max_topics: maximum number of topics.
      max_topic_messages: maximum number of unacknowledged messages in a topic.
      max_topic_bytes: maximum total size of their payloads.
      max_dedup_ids: maximum number of dedup ids in the windows of all topics.
      max_groups: maximum number of groups of a topic, including new ones in which a consumer waits.
      max_partitions: maximum number of partitions of all topics, each counted once for each group of its topic.
      max_schedules: maximum number of schedules.
      policy: what happens if a topic is full, unless its settings say.
      max_prefetch: maximum number of messages that a consumer may request.
      max_uncommitted_bytes: maximum total size of uncommitted payloads.
      max_transaction_bytes: maximum size of a transaction, as a protocol receives it.
      max_memory_bytes: how much memory all clients together may make the broker use.
      max_connections: maximum number of connections, which users share.
      has_users: whether clients authenticate, so that no user may use everything.
      rest_seconds: time without use after which an empty topic is put to rest, to free its memory.
    """

    max_topics: int = 0
    max_topic_messages: int = 0
    max_topic_bytes: int = 0
    max_dedup_ids: int = 0
    max_groups: int = 0
    max_partitions: int = 0
    max_schedules: int = 0
    policy: LimitPolicy = LimitPolicy.REFUSE
    max_prefetch: int = MAX_PREFETCH
    max_uncommitted_bytes: int = 0
    max_transaction_bytes: int = 0
    max_memory_bytes: int = 0
    max_connections: int = 0
    has_users: bool = False
    rest_seconds: float = REST_SECONDS


class Limits:
    """Checks requests against the limits.

    Args:
      limits: the limits of the operator.
      counts: counts refusals.
      memory: the account of the process, which is charged for topics.
      has_byte_quota: returns whether the topics of an owner are limited together.
      admit_share: raises ShareLimitError if an owner may not have so many more partitions.

    Attributes:
      max_dedup_ids: maximum number of dedup ids in memory.
    """

    def __init__(
        self,
        limits: BrokerLimits,
        counts: LimitCounts,
        memory: Memory,
        has_byte_quota: Callable[[str | None], bool] = lambda _owner: False,
        admit_share: Callable[[str, int], None] = lambda _owner, _count: None,
    ) -> None:
        self._has_byte_quota = has_byte_quota
        self._admit_share = admit_share
        self._max_topics = limits.max_topics or sys.maxsize
        self._max_messages = limits.max_topic_messages or sys.maxsize
        self._max_bytes = limits.max_topic_bytes or sys.maxsize
        self.max_dedup_ids = limits.max_dedup_ids or sys.maxsize
        self._max_groups = limits.max_groups or sys.maxsize
        self._max_schedules = limits.max_schedules or sys.maxsize
        self._max_partitions = limits.max_partitions or sys.maxsize
        self._partition_counts: Counter[str] = Counter()  # number of partitions by the owner of their topic
        self._memory = memory
        self._policy = limits.policy
        self._max_prefetch = limits.max_prefetch
        self._counts = counts

    def check_prefetch(self, prefetch: int) -> None:
        """Raise InvalidPrefetchError unless a consumer may hold `prefetch` messages."""
        if prefetch > self._max_prefetch:
            self._counts.reached(Limit.PREFETCH)
        check_prefetch(prefetch, self._max_prefetch)

    def admit_dedup_id(self, count: int) -> None:
        """Raise LimitReachedError if a dedup id beyond `count` would exceed the limit."""
        if count >= self.max_dedup_ids:
            self._counts.reached(Limit.DEDUP_IDS)
            raise LimitReachedError(f"as many dedup ids are in their windows as may be, {count} (-max-dedup-ids)")

    def admit_group(self, topic: Topic) -> None:
        """Raise LimitReachedError unless a topic may have one more group."""
        if len(topic.groups) >= self._max_groups:  # The default group is an entry even if it does not exist.
            count = sum(group.id is not None or group.consumer_count > 0 for group in topic.groups.values())
            if count >= self._max_groups:
                self._counts.reached(Limit.GROUPS)
                raise LimitReachedError(f"the topic has as many groups as it may have, {count} (-max-groups)")
        self.admit_partitions(0 if topic.id is None else topic.lane_count, topic.settings.owner or "")

    def partition_count(self, owner: str | None = None) -> int:
        """Return the number of partitions of an owner's topics, each counted once for each group; None: of all."""
        return self._partition_counts.total() if owner is None else self._partition_counts[owner]

    def admit_partitions(self, count: int, owner: str) -> None:
        """Raise LimitReachedError if `count` more partitions, counted once for each group, would exceed the limit.

        Raises ShareLimitError if they would be too many for the owner of their topic, and MemoryLimitError if there is
        no memory for them.
        """
        if count and self.partition_count() + count > self._max_partitions:
            self._counts.reached(Limit.PARTITIONS)
            raise LimitReachedError(
                f"partition limit reached: {self.partition_count()} and {count} more, counted once for each group "
                f"(-max-partitions {self._max_partitions}); delete topics or groups, or raise the limit"
            )
        if count:
            self._admit_share(owner, count)
        self._memory.check()

    def measure(self, topic: Topic) -> None:
        """Count the partitions of a topic, and charge its memory: it was made, changed, put to rest, or deleted."""
        before_owner, before_count, before_bytes = topic.measured
        count, size_bytes = topic.measure()
        owner = topic.settings.owner or ""
        topic.measured = owner, count, size_bytes
        self._partition_counts[before_owner] -= before_count
        self._partition_counts[owner] += count
        if size_bytes != before_bytes:
            self._memory.add(Purpose.TOPICS, size_bytes - before_bytes)

    def admit_schedule(self, count: int) -> None:
        """Raise LimitReachedError if a schedule beyond `count` would exceed the limit."""
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
        """Raise LimitReachedError if a topic beyond `topic_count`, or its messages, would exceed the limits."""
        if topic_count >= self._max_topics:
            self._counts.reached(Limit.TOPICS)
            raise LimitReachedError(f"there are as many topics as there may be, {topic_count} (-max-topics)")
        self.changed(topic)
        self.admit(topic, payloads, size_bytes, attributes)

    def changed(self, topic: Topic) -> None:
        """Set the limits of a topic: the lower of its settings and the limits of the operator; measure it."""
        self.measure(topic)
        settings = topic.settings
        topic.max_messages = min(settings.max_messages or sys.maxsize, self._max_messages)
        topic.max_bytes = min(settings.max_bytes or sys.maxsize, self._max_bytes)
        topic.is_limited = (
            min(topic.max_messages, topic.max_bytes) < sys.maxsize
            or bool(settings.max_message_bytes)
            or settings.schema is not None
            or bool(settings.spread)  # it is its parts that accept messages
            or self._has_byte_quota(settings.owner)
        )
        topic.held_at_most = None  # Publishes are not counted while there is no limit.

    def count_again(self, topic: Topic) -> None:
        """Count what a topic holds before the next publish to it: messages were admitted, and maybe not added."""
        topic.held_at_most = None

    def policy_of(self, topic: Topic) -> LimitPolicy:
        """Return what happens if a topic is full."""
        chosen = topic.settings.limit_policy
        return self._policy if chosen is None else LimitPolicy(chosen)

    def excess(self, topic: Topic) -> Room:
        """Return how far a topic exceeds its limits; negative numbers are free room."""
        held_count, held_bytes = topic.held()
        return Room(held_count - topic.max_messages, held_bytes - topic.max_bytes)

    def room(self, topic: Topic) -> Room:
        """Return the free room of a topic, without evicting messages; unlimited if the oldest messages are dropped."""
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
        may_dead_letter: MayDeadLetter | None = None,
    ) -> bool:
        """Return whether older messages must be evicted for new ones; raise TopicFullError if there is no room.

        Args:
          topic: the topic of the new messages.
          payloads: their payloads.
          size_bytes: total size of their payloads and attributes.
          attributes: the encoded attributes of each message, if any.
          policies: the policies by which older messages may be evicted; with any other policy, the new are refused.
          may_dead_letter: returns whether older messages can become dead letters; None if they cannot.
        """
        if not topic.is_limited:
            return False
        held = topic.held_at_most
        if held is not None and held.take(len(payloads), size_bytes, topic.max_messages, topic.max_bytes):
            return False
        over = _over(topic, len(payloads), size_bytes)
        if not over.is_over:
            return False
        if self._may_give_way(topic, over, policies, may_dead_letter):
            waiting_count, waiting_bytes = (topic.last_group or topic.default).waiting()
            over = Room(over.messages - waiting_count, over.size_bytes - waiting_bytes)
            if not over.is_over:
                if topic.held_at_most is not None:
                    topic.held_at_most.add(len(payloads), size_bytes)
                return True
        sizes = map(len, payloads) if attributes is None else map(add, map(len, payloads), map(len, attributes))
        fitting_count = _fitting(sizes, len(payloads) - over.messages, size_bytes - over.size_bytes)
        raise self._full(topic, over, fitting_count)

    def _may_give_way(
        self, topic: Topic, over: Room, policies: Container[LimitPolicy], may_dead_letter: MayDeadLetter | None
    ) -> bool:
        policy = self.policy_of(topic)
        if policy not in policies:
            return False
        if policy is LimitPolicy.DEAD_LETTER:
            return may_dead_letter is not None and may_dead_letter(topic, over)
        return policy is LimitPolicy.DROP_OLDEST

    def _full(self, topic: Topic, over: Room, fitting_count: int) -> TopicFullError:
        """Count the limit that was reached; return the exception to raise for a full topic."""
        if over.messages > 0:
            self._counts.reached(Limit.TOPIC_MESSAGES)
            is_own = topic.max_messages == topic.settings.max_messages
            name = "max_messages of the topic" if is_own else f"-{Limit.TOPIC_MESSAGES}"
            return TopicFullError("messages", name, fitting_count)
        self._counts.reached(Limit.TOPIC_BYTES)
        name = "max_bytes of the topic" if topic.max_bytes == topic.settings.max_bytes else f"-{Limit.TOPIC_BYTES}"
        return TopicFullError("bytes of messages", name, fitting_count)


def _over(topic: Topic, count: int, size_bytes: int) -> Room:
    """Return how far new messages would exceed a topic's limits; if they would not, add them to its count."""
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


def _fitting(sizes: Iterable[int], max_messages: int, max_bytes: int) -> int:
    """Return how many of the first messages, by their sizes, stay within both limits."""
    in_bytes = bisect_right(list(accumulate(sizes)), max_bytes)
    return max(0, min(max_messages, in_bytes))
