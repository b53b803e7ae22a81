"""Figures of topics: how much they hold, how fast they are, how old. Nothing is changed by looking.

They are counts that are there anyway; of the store a few values are read at most, for the oldest message. What goes
over all topics lets others go on in between.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial

from miniqueue.broker.clock import Clock
from miniqueue.broker.due_counting import DueCounter
from miniqueue.broker.journal import Journal
from miniqueue.broker.kept import kept_of
from miniqueue.broker.named_groups import group_named
from miniqueue.broker.oldest import oldest_at_ms
from miniqueue.broker.topic import Topic
from miniqueue.broker.topic_stats import TopicStats
from miniqueue.broker.turns import in_turns
from miniqueue.broker.watch import Watch
from miniqueue.core import cursor_view
from miniqueue.core.names import check_topic
from miniqueue.core.topic_errors import UnknownTopicError

TOPICS_IN_TURN = 100

#: Figures by name; None where there is nothing to measure.
Figures = dict[str, int | float | None]


class Looker:
    """Looks at topics.

    Args:
      topics: by name.
      journal: has the store.
      clock: tells how old messages are.
      due_counter: counts delayed messages that are due.
      requests_in: returns how many requests wait for the reply to a message of a topic.

    Attributes:
      watch: knows how fast topics are.
    """

    def __init__(
        self,
        topics: Mapping[bytes, Topic],
        journal: Journal,
        clock: Clock,
        due_counter: DueCounter,
        requests_in: Callable[[bytes], int],
    ) -> None:
        self.watch = Watch(journal, clock)
        self._due_counter = due_counter
        self._requests_in = requests_in
        self._topics = topics
        self._journal = journal
        self._clock = clock

    def depth(self, name: bytes, group: bytes | None = None) -> int:
        """Return how many messages of a topic are not acknowledged, by a group if one is named.

        It is 0 when there is no such topic. Raises InvalidTopicError, UnknownGroupError or UnavailableError.
        """
        self._journal.admission.check_change()
        topic = self._topics.get(check_topic(name))
        if topic is None or topic.id is None:
            return 0
        return topic.depth if group is None else group_named(topic, group).depth

    async def stats(self, name: bytes) -> Figures:
        """Return the figures of a topic.

        Raises InvalidTopicError, UnknownTopicError, UnavailableError, or StorageError when its oldest message cannot be
        read.
        """
        return await self._journal.epoch.repeat(partial(self._stats, name))

    async def _stats(self, name: bytes) -> Figures:
        return await self.figures(await committed_topic(self._topics, self._journal, name))

    async def figures(self, topic: Topic) -> Figures:
        """Return the figures of a topic that exists, as of its last commit."""
        await self._due_counter.count(topic)
        stats, missed_count = topic.stats(), sum(cursor.missed_count for cursor in topic.cursors)
        at_ms = await oldest_at_ms(self._journal.store, topic)
        kept = await kept_of(self._journal.store, topic)
        latencies = self.watch.latencies_seconds(topic) or (None, None)
        return {
            **_counts(stats),
            "unread_seconds": 0 if topic.last_group is None else round(topic.last_group.unread_seconds),
            "requests": self._requests_in(topic.name),
            "paused_in": topic.is_paused_in,
            "paused_out": topic.is_paused_out,
            "missed": missed_count,
            "leases": sum(cursor_view.lease_count(cursor) for cursor in topic.cursors),
            "oldest_seconds": self._age_seconds(at_ms),
            "retained": kept.message_count,
            "retained_bytes": kept.size_bytes,
            "retained_seconds": self._age_seconds(kept.earliest_at_ms),
            **self.watch.rates(topic),
            "latency_p50_seconds": latencies[0],
            "latency_p99_seconds": latencies[1],
        }

    def _age_seconds(self, at_ms: int | None) -> float | None:
        return None if at_ms is None else max(0, self._clock.now_ms() - at_ms) / 1000

    async def totals(self) -> Figures:
        """Return the sums over all topics of what can be added up."""
        sums: dict[str, float] = {"topics": 0}
        async for topic in self.existing():
            sums["topics"] += 1
            requests = {"requests": self._requests_in(topic.name)}
            for figures in (_counts(topic.stats()), requests, self.watch.rates(topic)):
                for name, figure in figures.items():
                    sums[name] = sums.get(name, 0) + figure
        return {name: round(figure, 3) for name, figure in sums.items()}

    async def everything(self) -> AsyncGenerator[Topic, None]:
        """Yield the topics by name, also those that are only waited for, some in each turn of the loop."""
        topics = [self._topics[name] for name in sorted(self._topics)]
        async with aclosing(in_turns(topics, TOPICS_IN_TURN)) as turns:
            async for topic in turns:
                await self._due_counter.count(topic)
                yield topic

    async def existing(self) -> AsyncGenerator[Topic, None]:
        """Yield the topics that exist, by name, some in each turn of the loop; one may be deleted meanwhile."""
        async with aclosing(self.everything()) as topics:
            async for topic in topics:
                if topic.id is not None:
                    yield topic


async def committed_topic(topics: Mapping[bytes, Topic], journal: Journal, name: bytes) -> Topic:
    """Return the topic of a name, as it is when what was done so far is committed.

    Raises:
      InvalidTopicError, UnknownTopicError.
      UnavailableError: the store is being reopened, and nobody knows what it holds.
    """
    journal.admission.check_change()
    _existing_topic(topics, name)
    await journal.commit_settles()
    journal.admission.check_change()
    return _existing_topic(topics, name)


def existing_id(topic: Topic) -> int:
    """Return the id of a topic that was there a moment ago; raises UnknownTopicError when it was deleted since."""
    if topic.id is None:
        raise UnknownTopicError
    return topic.id


def _existing_topic(topics: Mapping[bytes, Topic], name: bytes) -> Topic:
    topic = topics.get(check_topic(name))
    if topic is None or topic.id is None:
        raise UnknownTopicError
    return topic


def _counts(stats: TopicStats) -> dict[str, int]:
    return {
        "depth": stats.ready + stats.leased + stats.delayed,
        "ready": stats.ready,
        "leased": stats.leased,
        "delayed": stats.delayed,
        "size_bytes": stats.size_bytes,
        "published": stats.published,
        "acknowledged": stats.acknowledged,
        "dropped": stats.dropped,
        "moved": stats.moved,
        "consumers": stats.consumers,
        "waiting": stats.waiting,
        "expired": stats.expired,
        "duplicates": stats.duplicates,
        "dedup_ids": stats.dedup_ids,
    }
