"""The engine: the objects that all parts of the broker share; made once and never replaced.

    Engine ─▶ Topics ─▶ Limits
    └────▶ Journal ─▶ Committer, Admission, Store       upward: events only

The journal and the registry never call the parts of the broker that are made later: those connect to events.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from miniqueue.broker.commit.events import Events
from miniqueue.broker.commit.journal import Journal
from miniqueue.broker.engine.schemas import Schemas
from miniqueue.broker.engine.topics import Topics
from miniqueue.broker.engine.waking import Waking
from miniqueue.broker.model.limits import BrokerLimits, Limit, LimitCounts, Limits
from miniqueue.broker.model.new_partitions import PartitionMaker
from miniqueue.broker.model.shares import Pool, Shares
from miniqueue.broker.model.topic import Topic
from miniqueue.broker.runtime.accounts import Memory, Purpose
from miniqueue.broker.runtime.cache_budget import Budget
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.horizon import Horizon
from miniqueue.broker.runtime.notices import Notices
from miniqueue.broker.runtime.share import TimeShare
from miniqueue.broker.runtime.tasks import Tasks
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.settings.quotas import Quotas
from miniqueue.storage.port import Store

#: Maximum total size of the messages that are in memory for consumers, all topics together.
CACHE_BYTES = 64 << 20
#: What is left of it when the memory of the process is nearly used up.
MIN_CACHE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """The objects that the parts of a broker share.

    Attributes:
      clock: returns the time.
      horizon: determines which delayed messages are due.
      tasks: the background tasks.
      journal: has the store, and commits all changes.
      topics: the registry of topics; creates and removes them.
      limits: checks whether there is room for topics and messages.
      events: reports what happens to parts that are made later.
      cache: limits the memory that loaded messages use.
      memory: the accounts of the memory that clients use.
      share: cuts work on many topics into slices.
      shares: limits what one user has of each pool.
      schemas: checks messages of topics that have a schema.
      waking: wakes topics with many partitions and groups.
      maker: makes partitions before they are added.
    """

    clock: Clock
    horizon: Horizon
    tasks: Tasks
    journal: Journal
    topics: Topics
    limits: Limits
    events: Events
    cache: Budget
    memory: Memory
    share: TimeShare
    shares: Shares
    schemas: Schemas
    waking: Waking
    maker: PartitionMaker

    @property
    def notices(self) -> Notices:
        """Tells clients that listen what happens."""
        return self.journal.notices

    @classmethod
    def on(
        cls,
        open_store: Callable[[], Awaitable[Store]],
        clock: Clock,
        limits: BrokerLimits,
        counts: LimitCounts,
        *,
        reopened: Callable[[StoreContent], None],
        memory: Memory | None = None,
    ) -> "Engine":
        """Return an engine on a store that is not open yet.

        Args:
          open_store: opens the store; called at startup, and again after the store has failed.
          clock: returns the time.
          limits: the limits that the operator has set.
          counts: counts how often limits were reached.
          reopened: called with the content of the store, after a fault.
          memory: the accounts of the memory that clients use; None: they are not limited.
        """
        memory = memory or Memory()
        by_name = dict[bytes, Topic]()
        events = Events()
        memory.freed = events.freed
        journal = Journal(open_store, clock, by_name, events, reopened=reopened, memory=memory)
        counts.report_to(journal.notices)
        shares = Shares(counts, memory, clock, has_users=limits.has_users)
        topic_limits = Limits(limits, counts, memory, shares.has_byte_quota, partial(shares.admit, Pool.PARTITIONS))
        topics = Topics(by_name, journal, topic_limits, shares, clock)
        shares.measure(Pool.TOPICS, topics.owned_count, limits.max_topics, f"-{Limit.TOPICS}")
        shares.measure(Pool.PARTITIONS, topic_limits.partition_count, limits.max_partitions, f"-{Limit.PARTITIONS}")
        shares.measure(Pool.BYTES, topics.owned_bytes)
        shares.measure(Pool.CONNECTIONS, memory.connection_count, limits.max_connections, f"-{Limit.CONNECTIONS}")
        share = TimeShare(clock.monotonic, journal.committer.is_gathering)
        return cls(
            clock,
            Horizon(clock),
            Tasks(journal.fail),
            journal,
            topics,
            topic_limits,
            events,
            Budget(CACHE_BYTES),
            memory,
            share,
            shares,
            Schemas(),
            Waking(share),
            PartitionMaker(share, topics.spare),
        )

    def set_quotas(self, quotas: Mapping[str, Quotas]) -> None:
        """Replace the quotas of all users."""
        self.shares.set_quotas(quotas)
        for topic in self.topics.by_name.values():
            self.limits.changed(topic)

    def tick(self) -> None:
        """Measure what clients use; shrink the caches if the memory is nearly used up."""
        self.shares.tick()
        self.memory.tick()
        max_bytes = self.memory.cache_bytes(CACHE_BYTES, MIN_CACHE_BYTES)
        if max_bytes != self.cache.max_bytes:
            self.cache.resize(max_bytes)
            self.memory.put(Purpose.CACHE, self.cache.used_bytes)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a background task that ends when memory is dropped after a fault.

        If the work is still needed after the store was read again, the parts must start it again.
        """
        task = self.tasks.spawn(self.journal.epoch.background(work))
        task.add_done_callback(lambda _: work.close())  # avoids a warning if the task is cancelled before it starts
        return task
