"""Statistics of topics: how much they hold, how fast they are, how old their messages are. Inspection changes nothing.

Nearly all statistics are counters that exist anyway; at most a few values of the store are read, for the oldest
message. Inspections of all topics are cut into slices, and all of them together have a share of the event loop.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from operator import attrgetter
from typing import Any

from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.inspect.ages import kept_of, oldest_at_ms, oldest_of
from miniqueue.broker.inspect.due_counting import count_due
from miniqueue.broker.inspect.log import LogReader
from miniqueue.broker.inspect.peek import Peek
from miniqueue.broker.inspect.rates import RateMeter
from miniqueue.broker.inspect.recent import Recent
from miniqueue.broker.inspect.scan import Scan
from miniqueue.broker.model.parts import TopicStats
from miniqueue.broker.model.topic import Topic, total
from miniqueue.broker.model.views import group_named, stats_of
from miniqueue.core.message.names import check_topic
from miniqueue.errors.requests import UnknownTopicError

#: Number of topics that are inspected in one iteration of the event loop; this takes 0.7 ms.
TOPICS_IN_TURN = 20
#: Number of topics whose messages are counted in one iteration of the event loop; this takes 0.5 ms.
COUNTED_IN_TURN = 400

#: Statistics by name; None if there is nothing to measure.
Figures = dict[str, int | float | None]

_leases = attrgetter("leases")


class Inspect:
    """Shows statistics of topics, their messages, and their logs.

    Args:
      engine: has the topics and the store.
      log, rates: see below.
      requests_in: returns how many requests wait for the reply to a message of a topic.
      put_to_rest: puts a topic to rest if nothing is in it.

    Attributes:
      log: reads logs from any offset.
      rates: measures the rates and latencies of topics.
      messages: shows messages; `peek` and `find` are its methods.
      scan: searches for messages; `search` is its method.
    """

    def __init__(
        self,
        engine: Engine,
        log: LogReader,
        rates: RateMeter,
        requests_in: Callable[[bytes], int],
        put_to_rest: Callable[[Topic], Awaitable[None]],
    ) -> None:
        self.log = log
        self.rates = rates
        self.messages = Peek(engine)
        self.peek, self.find = self.messages.peek, self.messages.find
        self.scan = Scan(engine)
        self.search = self.scan.search
        self._engine = engine
        self._requests_in = requests_in
        self._put_to_rest = put_to_rest
        self._topics = engine.topics.by_name
        self._journal = engine.journal
        self._clock = engine.clock
        self._totals: Recent[Figures] = self.recent()
        self._contents: Recent[tuple[int, int]] = self.recent()

    def depth(self, name: bytes, group: bytes | None = None) -> int:
        """Return the number of unacknowledged messages of a topic, or of one of its groups.

        Returns 0 if the topic does not exist. Raises InvalidTopicError, UnknownGroupError, or UnavailableError.
        """
        self._journal.admission.check_change()
        topic = self._topics.get(check_topic(name))
        if topic is None or topic.id is None:
            return 0
        return topic.depth if group is None else group_named(topic, group).depth

    async def stats(self, name: bytes) -> Figures:
        """Return the statistics of a topic.

        Raises InvalidTopicError, UnknownTopicError, UnavailableError, or, if the oldest message cannot be read,
        StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._stats, name))

    async def _stats(self, name: bytes) -> Figures:
        return await self._journal.look_at(name, self.figures)

    async def figures(self, topic: Topic) -> Figures:
        """Return the statistics of a topic as of its last commit; raises UnknownTopicError if it was deleted.

        The counts are of one moment. The ages are read after it, those of many partitions in turns.
        """
        topic_id = topic.id
        await self._engine.waking.wake_named([topic.name])
        await count_due(self._engine, topic)
        stats, missed_count = stats_of(topic), total("missed_count", topic.cursors)
        lease_count, unread_seconds = sum(map(len, map(_leases, topic.cursors))), _unread_seconds(topic)
        at_ms = await oldest_at_ms(self._engine, topic)
        kept = await kept_of(self._engine, topic)
        if topic.id != topic_id:
            raise UnknownTopicError
        latencies = self.rates.latencies_seconds(topic) or (None, None)
        return {
            **_counts(stats),
            "unread_seconds": unread_seconds,
            "requests": self._requests_in(topic.name),
            "paused_in": topic.is_paused_in,
            "paused_out": topic.is_paused_out,
            "missed": missed_count,
            "lease_timeouts": topic.lease_timeout_count,
            "leases": lease_count,
            "oldest_seconds": self._age_seconds(at_ms),
            "retained": kept.message_count,
            "retained_bytes": kept.size_bytes,
            "retained_seconds": self._age_seconds(kept.earliest_at_ms),
            **self.rates.rates(topic),
            "latency_p50_seconds": latencies[0],
            "latency_p99_seconds": latencies[1],
        }

    async def oldest_at_ms(self, name: bytes, group: bytes | None = None) -> int | None:
        """Return when the oldest message of a topic, or of a group, was published, in ms; None if there is none.

        Does not wake a topic at rest. Raises UnknownGroupError or StorageError.
        """
        return await self._journal.epoch.repeat(partial(self._oldest_at_ms, name, group))

    async def _oldest_at_ms(self, name: bytes, group: bytes | None) -> int | None:
        topic = self._topics.get(name)
        if topic is None or topic.id is None or topic.at_rest is not None:
            return None
        if group is None or len(topic.existing_groups) == 1:
            return await oldest_at_ms(self._engine, topic)
        return await oldest_of(self._engine, topic.id, group_named(topic, group).cursors)

    def _age_seconds(self, at_ms: int | None) -> float | None:
        return None if at_ms is None else max(0, self._clock.now_ms() - at_ms) / 1000

    async def content(self) -> tuple[int, int]:
        """Return the number of topics, and of their unacknowledged messages, uncommitted ones included.

        With many topics, they are at most a second old.
        """
        return await self._contents.get(self._count)

    async def _count(self) -> tuple[int, int]:
        message_count = 0
        async with aclosing(self._engine.share.in_turns(list(self._topics.values()), COUNTED_IN_TURN)) as topics:
            async for topic in topics:
                if topic.id is not None:
                    message_count += topic.held()[0] if topic.at_rest is None else 0
        return self._engine.topics.owned_count(None), message_count

    async def totals(self) -> Figures:
        """Return the sums over all topics of the statistics that can be added.

        Callers at the same time share the work: each gets sums that were begun after its call. With many topics, the
        sums are at most a second old.
        """
        return await self._totals.get(self._sum_up)

    def recent(self) -> Recent[Any]:
        """Return what makes something of all topics for all who ask for it, as `totals` does."""
        return Recent(self._topics, self._clock)

    async def _sum_up(self) -> Figures:
        sums: dict[str, float] = {"topics": self._engine.topics.owned_count(None)}
        async for topic in self.existing():
            requests = {"requests": self._requests_in(topic.name)}
            for figures in (_counts(stats_of(topic)), requests, self.rates.rates(topic)):
                for name, figure in figures.items():
                    sums[name] = sums.get(name, 0) + figure
        return {name: round(figure, 3) for name, figure in sums.items()}

    async def everything(self) -> AsyncGenerator[Topic, None]:
        """Yield all topics by name, with those that do not exist but have waiting consumers.

        Of spread topics, it yields the parts that are here, one after the other, and not the settings of the whole.
        Yields a few topics per iteration of the event loop. The names are read at the beginning, each topic when it is
        next: it may have been deleted or created again.
        """
        async with aclosing(self._engine.share.in_turns(sorted(self._topics), TOPICS_IN_TURN)) as names:
            async for name in names:
                if self._engine.topics.is_copy(name):
                    continue
                while (topic := self._topics.get(name)) is not None:
                    was_at_rest = topic.at_rest is not None
                    await count_due(self._engine, topic)
                    if self._topics.get(name) is topic:
                        yield topic
                        if was_at_rest and topic.at_rest is None:
                            await self._put_to_rest(topic)
                        break

    async def existing(self) -> AsyncGenerator[Topic, None]:
        """Yield the existing topics by name, a few per iteration of the event loop; topics may be deleted meanwhile."""
        async with aclosing(self.everything()) as topics:
            async for topic in topics:
                if topic.id is not None:
                    yield topic


def _unread_seconds(topic: Topic) -> int:
    """Return how long no consumer has used the slowest group."""
    last = topic.last_group
    return 0 if last is None else round(last.unread_seconds)


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
