"""The broker: what both protocols call.

It decides synchronously, in the core, and returns; the store's work follows in group commits. All methods are
called on one event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from miniqueue.broker import opening
from miniqueue.broker.clearing import Clearer
from miniqueue.broker.clock import Clock
from miniqueue.broker.configuring import Configurator
from miniqueue.broker.consumer import Consumer
from miniqueue.broker.crowd import Crowd
from miniqueue.broker.dead_letters import DeadLetters
from miniqueue.broker.delaying import Delayer
from miniqueue.broker.dispatcher import Dispatcher
from miniqueue.broker.due_counting import DueCounter
from miniqueue.broker.duplicates import Duplicates
from miniqueue.broker.expiring import Expirer
from miniqueue.broker.flow import Flows
from miniqueue.broker.groups import Groups
from miniqueue.broker.idle_groups import IdleGroups
from miniqueue.broker.journal import Journal
from miniqueue.broker.lanes import Lanes
from miniqueue.broker.leasing import Leasing
from miniqueue.broker.limits import BrokerLimits, LimitCounts, Quota
from miniqueue.broker.loader import Loader
from miniqueue.broker.log_reading import LogReader
from miniqueue.broker.looking import Looker
from miniqueue.broker.member_consumer import MemberConsumer
from miniqueue.broker.members import Members
from miniqueue.broker.pausing import Pauser
from miniqueue.broker.peeking import Peeker
from miniqueue.broker.publishing import Publisher
from miniqueue.broker.purger import Purger
from miniqueue.broker.redriving import Redriver
from miniqueue.broker.registry import Registry
from miniqueue.broker.removing import Remover
from miniqueue.broker.requesting import Requests
from miniqueue.broker.resting import Resting
from miniqueue.broker.retaining import Retainer
from miniqueue.broker.scheduling import Scheduler
from miniqueue.broker.space import SpaceWatch
from miniqueue.broker.sweeping import Sweeper
from miniqueue.broker.tasks import Tasks
from miniqueue.broker.topic import Topic
from miniqueue.broker.topic_stats import TopicStats
from miniqueue.broker.trace_reading import TraceReader
from miniqueue.broker.tracing import Tracer
from miniqueue.broker.transfer import Transfer
from miniqueue.broker.trimming import Trimmer
from miniqueue.broker.unique_publishing import UniquePublisher
from miniqueue.core.budget import Budget
from miniqueue.core.group_start import DEFAULT_GROUP_NAME
from miniqueue.core.lease import Lease
from miniqueue.core.members import DEFAULT_SESSION_SECONDS
from miniqueue.core.receiving import DEFAULT_LEASE_SECONDS
from miniqueue.errors import MiniqueueError, UnavailableError
from miniqueue.storage.port import Snapshot, Store

CACHE_BYTES = 64 << 20


class Broker:
    """Topics on a store.

    Args:
      open_store: opens the store; called at the start, and again after the store has failed.
      clock: tells when delayed messages are due.
      max_message_bytes: the largest payload accepted.
      period_seconds: how often delayed messages are looked for.
      sync_interval_seconds: how often to make everything durable, for stores that do not with every commit.
      limits: how much there may be; without them there is none.
      lease_seconds: how long messages are leased to who receives them and does not say.

    Attributes:
      publish: adds messages to a topic; see `Publisher`, also for `publish_with` and `publish_batch`.
      publish_unique: adds a message with a unique key; `publish_several` many, with keys or without.
      delayer: keeps messages that wait for their time; `scheduler` publishes some over and over.
      crowd: says when who publishes had better wait; it is up to them.
      limit_counts: how often limits were reached, for all to count in.
      leasing: hands out messages for a time, settled by receipt.
      requests: publishes messages that want a reply, and passes replies on.
      resting: brings the broker to rest before a stop.
      configurator: makes topics and changes their settings; `redriver` moves dead letters back.
      looker: knows figures of topics; `peeker` shows messages, `clearer` removes them; `pauser` stops topics.
      log_reader: reads logs from any place on, without a group; `traces` what happened to messages.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        *,
        clock: Clock,
        max_message_bytes: int = 1 << 20,
        period_seconds: float = 1.0,
        sync_interval_seconds: float | None = None,
        limits: BrokerLimits | None = None,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.limits = limits or BrokerLimits()
        self.limit_counts = LimitCounts()
        self._period_seconds = period_seconds
        self._sync_interval_seconds = sync_interval_seconds
        topics = self._topics = dict[bytes, Topic]()
        self._journal = Journal(open_store, clock, topics, readable=self._readable, reopened=self._install)
        self._committer, self._admission = self._journal.committer, self._journal.admission
        self._quota = Quota(self.limits, self.limit_counts)
        self._trimmer = Trimmer(self._journal, self._quota, self._readable)
        self.crowd = Crowd(self._committer, self.limits.max_uncommitted_bytes, self.limit_counts)
        self._cache = Budget(CACHE_BYTES)
        self._tasks = Tasks(self._journal.fail)
        self._loader = Loader(self._journal, spawn=self._spawn, loaded=self._trimmer.loaded)
        self._purger = Purger(self._journal, spawn=self._spawn)
        self._space = SpaceWatch(self._journal)
        self._dispatcher = Dispatcher(topics, clock, self._journal, self._loader)
        self._flows = Flows(clock, self._dispatcher.dispatch)
        lanes = Lanes(self._journal, made=self._grown)
        self._registry = Registry(
            topics, self._journal, self._quota, lanes, clock, made=lambda topic: self._watch([topic])
        )
        self.delayer = Delayer(topics, self._journal, lanes, clock, spawn=self._spawn)
        self._duplicates, journal = Duplicates(self._journal, clock, self._quota), self._journal
        parts = self._trimmer, self.delayer, self._duplicates, clock
        publisher = Publisher(self._registry, journal, *parts, max_bytes=max_message_bytes)
        self.publish, self.publish_batch = publisher.publish, publisher.publish_batch
        self.publish_with = publisher.publish_with
        unique = UniquePublisher(topics, journal, self.crowd, publisher.publish_with)
        self.publish_unique, self.publish_several = unique.publish, unique.publish_several
        self.delete_topic = Remover(self._registry, self._journal, self._purger, self._cache).delete
        self._add_services(topics, clock, lease_seconds)

    def _add_services(self, topics: dict[bytes, Topic], clock: Clock, lease_seconds: float) -> None:
        """Make what stands on the engine, one service for each kind of thing that clients ask for."""
        journal, registry = self._journal, self._registry
        transfer = Transfer(journal, self._quota, self._trimmer, topics, registry.lanes, registry.create)
        self._dead_letters = DeadLetters(transfer, clock, self._dispatcher.due_at_ms)
        self._quota.may_bury, self._trimmer.graveyard = self._dead_letters.may_bury, self._dead_letters
        self._expirer = Expirer(journal, clock, self._dead_letters, dispatch=self._dispatcher.dispatch)
        self._dispatcher.expirer = self._expirer
        self._sweeper = Sweeper(topics, journal, clock, self._expirer, spawn=self._spawn, loaded=self._readable)

        def horizon_ms() -> int:
            return self._dispatcher.horizon_ms

        due_counter = DueCounter(journal, horizon_ms)
        self.redriver = Redriver(topics, journal, self._dispatcher, transfer, due_counter)
        self.members = Members(registry.topic, clock, self._dispatcher, self._quota)
        self.leasing = Leasing(
            topics,
            self.members,
            self._admission,
            self._dispatcher,
            lease_seconds=lease_seconds,
            max_count=self.limits.max_prefetch,
            dead_letters=self._dead_letters,
        )
        self.requests = Requests(self.publish_with, self.leasing, self._admission, self.max_message_bytes)
        self.scheduler = Scheduler(
            journal, clock, self.crowd, self.publish_with, self.max_message_bytes, self._spawn, quota=self._quota
        )
        self.scheduler.period_ms = round(1000 * self._period_seconds)
        places = journal, topics, registry.lanes
        self.configurator = Configurator(*places, create=registry.create, changed=self._reconfigured)
        self.pauser = Pauser(self.configurator, self._admission, clock, resumed=self._readable)
        self.clearer = Clearer(topics, journal, clock, self.delayer, horizon_ms=horizon_ms, loaded=self._readable)
        self.resting = Resting(topics, self._admission, self.pauser)
        self.looker = Looker(topics, journal, clock, due_counter, self.requests.waiting_in)
        self.peeker = Peeker(topics, journal, horizon_ms)
        self._tracer = Tracer(journal, clock, spawn=self._spawn)
        self.log_reader, self.traces = LogReader(topics, journal), TraceReader(topics, journal, self.peeker, clock)
        found_by = registry, journal, self.log_reader, clock, self._quota
        self.groups = Groups(*found_by, spawn=self._spawn, changed=self._regrouped)
        self._dispatcher.begin_soon, self.groups.due_counter = self.groups.begin_soon, due_counter
        delete, spawn = self.groups.delete_soon, self._spawn
        self._idle_groups = IdleGroups(topics, clock, period_seconds=self._period_seconds, delete=delete, spawn=spawn)
        self._retainer = Retainer(journal, clock, spawn=self._spawn, drop_unread=self.clearer.drop_unread)

    # --- life -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, read what it holds, and begin to work; raises StorageError when that is impossible."""
        self._install(await self._journal.open())
        await self._space.look()
        self._tasks.spawn(self._space.run())
        self._tasks.spawn(self.looker.watch.run())
        self._tasks.spawn(self._committer.run())
        self._tasks.spawn_every(self._period_seconds, self.tick)
        if self._sync_interval_seconds is not None:
            self._tasks.spawn_every(self._sync_interval_seconds, self._journal.request_sync)

    async def stop(self) -> None:
        """Refuse new messages, commit what there is, close the store.

        Raises OutcomeUnknownError when the last commit failed; the store is closed all the same.
        """
        try:
            self._tracer.hurry()
            await self._journal.drain()
        finally:
            await self._tasks.stop()
            await self._journal.store.close()

    def tick(self) -> None:
        """Let the delayed messages through that are due by now, end leases that are over, and see to the disk."""
        first = self.leasing, self.members, self.pauser, self._dispatcher, self._sweeper, self.delayer, self.scheduler
        for service in (*first, self._duplicates, self._retainer, self._tracer, self._idle_groups):
            service.tick()
        for remover in (self._purger, self.groups):
            remover.tick()
        self._purger.reclaim(self._topics.values(), is_full=self._admission.is_full)

    @property
    def refusal(self) -> type[UnavailableError] | None:
        """Why messages are refused now, or None."""
        return self._admission.refusal

    @property
    def failed(self) -> "asyncio.Future[MiniqueueError]":
        """Done when the store has failed and could not be reopened; the result says why."""
        return self._journal.failed

    @property
    def free_bytes(self) -> int | None:
        """What was free on the disk at the last look, or None where there is no disk."""
        return self._space.free_bytes

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background that ends when memory is dropped, and is begun again when it is read anew."""
        task = self._tasks.spawn(self._journal.epoch.background(work))
        task.add_done_callback(lambda _: work.close())  # which a task that is cancelled first has not begun

    # --- consuming --------------------------------------------------------------------------------------------

    def consumer(
        self,
        name: bytes,
        deliver: Callable[[list[Lease]], None],
        fail: Callable[[MiniqueueError], None],
        prefetch: int = 1,
        group: bytes = DEFAULT_GROUP_NAME,
        member: bytes = b"",
        *,
        session_seconds: float = DEFAULT_SESSION_SECONDS,
    ) -> Consumer:
        """Make a consumer of a topic, which need not exist yet, that holds up to `prefetch` messages.

        Nor need its group exist. A member that holds messages and settles none for `session_seconds` is closed, and
        `fail` is called with SessionOverError.

        Raises InvalidTopicError, InvalidGroupError or InvalidPrefetchError, and as `Members.enter`.
        """
        self._quota.check_prefetch(prefetch)
        line, entered = self.members.enter(name, group, member)
        if entered is None:
            return Consumer(self._dispatcher, line, deliver, fail, prefetch)
        return MemberConsumer(self._dispatcher, line, deliver, fail, prefetch, entered, session_seconds=session_seconds)

    # --- looking and removing ---------------------------------------------------------------------------------

    def topics(self) -> list[bytes]:
        """Return the names of the topics that exist, sorted."""
        return self._registry.existing()

    def stats(self) -> dict[bytes, TopicStats]:
        """Return what each topic holds; also those that do not exist yet but are waited for.

        What is due counts as ready as far as somebody has looked for it: see `looker`.
        """
        return {name: topic.stats() for name, topic in sorted(self._topics.items())}

    def faults(self) -> dict[bytes, MiniqueueError]:
        """Return the topics that cannot be read, each with the reason."""
        return {name: topic.fault for name, topic in self._topics.items() if topic.fault is not None}

    async def snapshot(self) -> Snapshot:
        """Return all that is stored now: whatever was acknowledged before, also settles; raises StorageError."""
        self._tracer.hurry()
        await self._journal.commit_settles()  # what cannot be committed now was not acknowledged
        return await self._journal.store.snapshot()

    # --- from the journal -------------------------------------------------------------------------------------

    def _reconfigured(self, topic: Topic) -> None:
        for service in (self._expirer, self._quota, self._flows):
            service.apply_settings(topic)
        self._grown(topic)
        self.groups.begin_waiting(topic)
        self.pauser.apply([topic])  # last: it may hand messages out, as all the settings say
        self._readable(topic)

    def _grown(self, topic: Topic) -> None:
        for service in (self._retainer, self._dead_letters, self._tracer):
            service.apply_settings(topic)

    def _regrouped(self, topic: Topic) -> None:
        self._grown(topic)
        self._readable(topic)

    def _watch(self, topics: list[Topic]) -> None:
        self.looker.watch.see(topics)
        self.pauser.apply(topics)
        for topic in topics:
            self._expirer.apply_settings(topic)

    def _readable(self, topic: Topic) -> None:
        self._dispatcher.dispatch_all(topic)
        self._cache.touch(topic)

    def _install(self, content: opening.StoreContent) -> None:
        """Take over what the store holds, at the start and after a fault."""
        self._registry.install(content)
        self._watch(content.topics)
        self._retainer.see(content.topics)
        self._tracer.install(content.topics, content.traces)
        for topic in list(self._topics.values()):
            for service in (self._dead_letters, self._quota, self._flows, self._tracer):
                service.apply_settings(topic)
            self._cache.touch(topic)
            self._registry.drop_idle(topic)
        self.delayer.installed()
        self.scheduler.install(content.ticks)
        self._duplicates.install(content.topics)
        self.groups.installed(content.topics, content.unpurged_groups)
        for topic_id in content.unpurged_topic_ids:
            self._purger.purge(topic_id)
        self.tick()
