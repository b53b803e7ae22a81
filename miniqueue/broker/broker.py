"""The broker: the interface that both protocols call.

The core decides synchronously, and the call returns; group commits write to the store afterwards. All methods must be
called on one event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import compress
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING

from miniqueue.broker.acts.acts import Acts
from miniqueue.broker.acts.by_filter import ActsByFilter
from miniqueue.broker.acts.by_id import ActsById
from miniqueue.broker.acts.holes import Holes
from miniqueue.broker.acts.replacing import Replacing
from miniqueue.broker.acts.tasks import ActTasks
from miniqueue.broker.cleanup.disk_space import DiskReclaimer
from miniqueue.broker.cleanup.expiry_sweep import ExpirySweep
from miniqueue.broker.cleanup.purge import purge
from miniqueue.broker.cleanup.retention import RetentionKeeper
from miniqueue.broker.commit.backpressure import Backpressure
from miniqueue.broker.commit.disk_watch import look_at_space, watch_space
from miniqueue.broker.commit.journal import Commit
from miniqueue.broker.consume.consumer import Consumer, MemberConsumer
from miniqueue.broker.consume.dispatcher import Dispatcher
from miniqueue.broker.consume.members import Members
from miniqueue.broker.consume.redrive import Redriven, redrive
from miniqueue.broker.consume.stream_leases import StreamLeases
from miniqueue.broker.dead_letters import dead_letters
from miniqueue.broker.delays.delays import DelayedMessages
from miniqueue.broker.delays.schedules import Scheduler
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.groups.groups import Groups
from miniqueue.broker.inspect.inspect import Inspect
from miniqueue.broker.inspect.log import LogReader
from miniqueue.broker.inspect.overview import Overview
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.inspect.rates import RateMeter
from miniqueue.broker.inspect.usage import Usage, usage_of, usage_of_all
from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.leases.receive_any import SeveralTopics
from miniqueue.broker.leases.request_reply import Requests
from miniqueue.broker.model.limits import BrokerLimits, LimitCounts
from miniqueue.broker.model.parts import TopicStats
from miniqueue.broker.model.views import stats_of
from miniqueue.broker.publish.overflow import trim
from miniqueue.broker.publish.publisher import Publisher
from miniqueue.broker.runtime.accounts import UNLIMITED, Memory, Purpose
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.share import Others
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.broker.topics.admin import TopicAdmin
from miniqueue.broker.topics.rest import TopicRest
from miniqueue.broker.topics.spare import SparePartitions
from miniqueue.broker.traces.reader import trace
from miniqueue.broker.traces.steps import Step
from miniqueue.broker.traces.tracer import Tracer
from miniqueue.broker.transactions.transactions import Transactions
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.message.ids import DelayedId
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.options.consume import DEFAULT_LEASE_SECONDS, DEFAULT_SESSION_SECONDS, StreamOptions
from miniqueue.core.settings.defaults import TopicDefaults
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.spreading import Earlier
from miniqueue.errors import MiniqueueError, UnavailableError
from miniqueue.storage.port import Position, Snapshot, Store, Writes

if TYPE_CHECKING:
    from miniqueue.broker.inbox.inbox import Inbox
    from miniqueue.broker.outbox.outbox import Outbox

_fault = attrgetter("fault")


class Broker:
    """Topics on a store.

    Args:
      open_store: opens the store; called at startup, and again after the store has failed.
      clock: returns the time, which determines when delayed messages are due.
      max_message_bytes: maximum size of a payload.
      period_seconds: interval between ticks, which also check for due messages.
      sync_interval_seconds: interval between syncs, for stores that do not sync every commit; None means no syncs.
      limits: limits on topics, messages, and memory; None means unlimited.
      lease_seconds: duration of a lease, unless the client or the topic specifies one.

    Attributes:
      clock: the clock that was passed in.
      publish: adds messages to a topic; see `Publisher`, also for `publish_with` and `publish_batch`.
      publish_unique: adds a message with a unique key; `publish_several` adds many, with or without keys.
      delayed: keeps messages until they are due.
      scheduler: publishes messages on schedules.
      backpressure: makes publishers wait while too many bytes are uncommitted.
      limit_counts: how often limits were reached; shared by all parts.
      memory: the accounts of the memory that clients use.
      notices: reports what happens to clients that listen.
      others: whether clients wait for the reply to one command or request, as the protocols see it.
      share: divides the time of the event loop between long work and all other.
      shares: how much of each pool one user may have.
      make_spare: makes the partitions that a publish lacks, which raises PartitionsDueError.
      waking: wakes topics with many partitions and groups before a command or request that names them is carried out.
      leases: delivers messages for a limited time, to be settled by receipt.
      several: delivers messages of any of several topics.
      members: assigns the partitions of a group to its members.
      requests: publishes messages that request a reply, and forwards the replies.
      transactions: does publishes and settles in one commit, all or none.
      admin: creates, changes, pauses, and deletes topics; pauses all topics before a stop.
      groups: creates, moves, and deletes groups.
      inspect: returns statistics of topics, and shows messages and logs.
      overview: shows all topics at once, what needs attention, and the history of the last hours.
      by_id: deletes or moves one message, which an administrator has chosen.
      by_filter: deletes or moves all messages that a filter selects.
      tasks: the same, without a client that waits, and over restarts.
      inbox: adds messages that come from other shards; None if there are no shards.
    """

    inbox: "Inbox | None" = None

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
        self.clock, self.limits = clock, limits or BrokerLimits()
        self.limit_counts, self.others = LimitCounts(), Others()
        self._period_seconds = period_seconds
        self._sync_interval_seconds = sync_interval_seconds
        self.memory = Memory(self.limits.max_memory_bytes or UNLIMITED, has_users=self.limits.has_users)
        engine = self._engine = Engine.on(
            open_store, clock, self.limits, self.limit_counts, reopened=self._install, memory=self.memory
        )
        self.shares, self.set_quotas = engine.shares, engine.set_quotas
        self.notices, self.share, self.waking = engine.notices, engine.share, engine.waking
        self.make_spare, self._spare = engine.maker.make_spare, SparePartitions(engine)
        log, rates = LogReader(engine), RateMeter(engine)
        self._disk = DiskReclaimer(engine)
        self.admin = TopicAdmin(engine, self._disk)
        self.groups = Groups(engine, log, rates, self.admin.set_own, period_seconds=period_seconds)
        self._dispatcher = Dispatcher(engine, begin=self.groups.begin_soon)
        self.members = Members(engine, self._dispatcher, period_seconds)
        self._stream_leases = StreamLeases(self._dispatcher)
        self.leases = Leases(
            engine, self.members, self._dispatcher, lease_seconds=lease_seconds, max_count=self.limits.max_prefetch
        )
        self.several = SeveralTopics(engine, self.leases, Random(0))
        publisher = self._publisher = self._make_publisher()
        self.requests = Requests(engine, publisher.publish_with, self.leases, max_message_bytes)
        self.transactions = Transactions(engine, publisher, self.leases, self.backpressure)
        self.scheduler = Scheduler(engine, self.backpressure, publisher.publish_with, max_message_bytes, period_seconds)
        rest = self._rest = TopicRest(engine, rest_seconds=self.limits.rest_seconds)
        self.inspect = Inspect(engine, log, rates, self.requests.waiting_in, rest.put)
        self.overview = Overview(engine, rates)
        self._make_acts()
        self._retention = RetentionKeeper(engine, rest.put)
        self._sweep, self._tracer = ExpirySweep(engine), Tracer(engine)
        # Bound here, so that a publish costs no additional call.
        self.publish, self.publish_with = publisher.publish, publisher.publish_with
        self.publish_batch = publisher.publish_batch
        self.publish_unique, self.publish_several = publisher.unique.publish, publisher.unique.publish_several
        self.delete_topic = self.admin.delete
        self._measure_memory()
        self._connect()

    def _make_publisher(self) -> Publisher:
        """Make the part that publishes, and those that admit, keep delayed, and replace messages for it."""
        engine = self._engine
        self.backpressure = Backpressure(
            engine.journal.committer, self.limits.max_uncommitted_bytes, self.limit_counts, engine.maker.make_spare
        )
        self.delayed, self._holes = DelayedMessages(engine), Holes(engine)
        find = Replacing(engine, self._dispatcher, self.delayed, self._holes).find
        return Publisher(engine, self.delayed, self.backpressure, find, max_bytes=self.max_message_bytes)

    def _make_acts(self) -> None:
        """Make the parts that act on chosen messages, of the parts that find and move messages."""
        engine, acts = self._engine, Acts(self._engine, self._dispatcher, self.delayed, self._holes)
        self.by_id = ActsById(engine, acts, self.inspect.messages, self.delayed)
        self.by_filter = ActsByFilter(engine, self.inspect.scan, acts, self.delayed)
        self.tasks = ActTasks(engine, self.by_filter)

    def _measure_memory(self) -> None:
        """Charge the process for what has limits of its own, once a second."""
        memory, engine = self.memory, self._engine
        memory.measure(Purpose.CACHE, lambda: engine.cache.used_bytes + engine.schemas.size_bytes)
        memory.measure(Purpose.COMMITS, lambda: engine.journal.committer.waiting_bytes)
        memory.measure(Purpose.DEDUP_IDS, lambda: self._publisher.duplicates.size_bytes)
        memory.measure(Purpose.REQUESTS, lambda: self.requests.size_bytes)
        memory.measure(Purpose.OUTBOX, lambda: 0 if self.outbox is None else self.outbox.size_bytes)

    def _connect(self) -> None:
        """Connect the handlers of all events, which are called in this order."""
        engine = self._engine
        engine.events.connect(
            restored=[
                engine.waking.restored,
                engine.topics.restored,
                engine.schemas.restored,
                self._tracer.restored,
                self.delayed.restored,
                self.scheduler.restored,
                self._publisher.duplicates.restored,
                self.groups.restored,
                self._disk.restored,
                self.members.restored,
                self.tasks.restored,
                self.several.restored,
                self._restored_transfers,
            ],
            changed=[
                engine.waking.changed,
                engine.limits.changed,
                partial(dead_letters.changed, engine),
                self.inspect.rates.changed,
                self.admin.changed,
                self.groups.changed,
                self._holes.changed,
                self._dispatcher.changed,
                self._retention.changed,
                self._tracer.changed,
                self.several.changed,
            ],
            unless_woken=[self._holes.changed],
            readable=self._dispatcher.readable,
            loaded=self._disk.loaded,
            before_commit=partial(trim, engine),
            freed=self._dispatcher.resume_soon,
        )

    # --- life -------------------------------------------------------------------------------------------------

    def set_defaults(self, defaults: TopicDefaults) -> None:
        """Replace the settings of topics that are created from now on.

        Raises InvalidSettingError if one is a schema that cannot be checked.
        """
        self._engine.schemas.check_defaults(defaults)
        self._engine.topics.set_defaults(defaults)

    def place(self, placing: Placing) -> None:
        """Make this broker one shard of several, before it starts: it creates no topics of others."""
        from miniqueue.broker.inbox.inbox import Inbox  # noqa: PLC0415 - only with shards
        from miniqueue.broker.outbox.outbox import Outbox  # noqa: PLC0415 - the same

        engine = self._engine
        engine.topics.placing = placing
        outbox = engine.topics.outbox = Outbox(engine.journal, engine.clock, placing.shard_of)
        self.inbox = Inbox(engine, outbox)

    @property
    def outbox(self) -> "Outbox | None":
        """The messages on their way to topics of other shards; None if there are no shards."""
        return self._engine.topics.outbox

    def pause_of_transfers(self) -> AbstractContextManager[None]:
        """Return what makes messages between shards wait while its context is open; see `outbox.pause`."""
        return nullcontext() if self.outbox is None else self.outbox.pause.lasting()

    def _restored_transfers(self, content: StoreContent) -> None:
        if self.outbox is not None and self.inbox is not None:
            self.outbox.restored(content)
            self.inbox.restored(content)

    def spread_of(self, name: bytes) -> int:
        """Return over how many parts a topic is spread, 0 for others; see `Topics.spread_of`.

        Whoever serves clients leads requests about such a topic to its parts, `core.message.parts`, in their shards.
        """
        return self._engine.topics.spread_of(name)

    def earlier_of(self, name: bytes) -> Earlier:
        """Return the numbers of parts that a spread topic has had before."""
        return self._engine.topics.earlier_of(name)

    async def knows(self, name: bytes, dedup_id: bytes, unique_key: bytes) -> bool:
        """Return whether a publish to a topic with this id or this unique key is known there; see `Publisher`."""
        return await self._publisher.knows(name, dedup_id, unique_key)

    def parts_here(self, name: bytes) -> list[bytes]:
        """Return the names of the parts of a topic that are in this shard; its own name if it is not spread."""
        return self._engine.topics.parts_here(name)

    @property
    def spread_topics(self) -> Mapping[bytes, int]:
        """The number of parts of each spread topic, by its name; the settings are those of `admin.settings_of`."""
        return self._engine.topics.spread

    async def start(self) -> None:
        """Open the store, read its content, and start all background tasks; raises StorageError if that fails."""
        journal, tasks = self._engine.journal, self._engine.tasks
        self._install(await journal.open())
        error = await look_at_space(journal)
        tasks.spawn(watch_space(journal, error))
        tasks.spawn(self.inspect.rates.run())
        tasks.spawn(journal.committer.run())
        tasks.spawn_every(self._period_seconds, self.tick)
        if self._sync_interval_seconds is not None:
            tasks.spawn_every(self._sync_interval_seconds, journal.request_sync)

    async def stop(self) -> None:
        """Refuse new messages, commit all changes, and close the store.

        Raises OutcomeUnknownError if the last commit failed; the store is closed even then.
        """
        try:
            self._tracer.hurry()
            await self._engine.journal.drain()
        finally:
            await self._engine.tasks.stop()
            await self._engine.journal.store.close()

    def tick(self) -> None:
        """Publish due messages, end expired leases and pauses, reclaim disk space, and measure memory, in all parts."""
        first = (
            self.leases,
            self._stream_leases,
            self.members,
            self.admin,
            self._dispatcher,
            self._sweep,
            self.delayed,
            self.scheduler,
        )
        for part in (
            *first,
            self._publisher.duplicates,
            self._retention,
            self._tracer,
            self._disk,
            self.tasks,
            self._holes,
            self.groups,
            self._rest,
            self._spare,
            self.notices,
        ):
            part.tick()
        self._engine.tick()
        self._disk.reclaim(self._engine.topics.by_name.values(), is_full=self._engine.journal.admission.is_full)

    def sync(self) -> Commit:
        """Return a commit that is done when everything done so far is on the disk, settles included.

        This holds whatever the sync mode of the store is. The commit is shared with all that arrives until it begins.
        """
        return self._engine.journal.sync()

    @property
    def open_commit(self) -> Commit:
        """The commit that includes what is published now."""
        return self._engine.journal.committer.open

    def is_gathering(self) -> bool:
        """Whether publishes are being gathered for a commit, which takes a few iterations of the event loop."""
        return self._engine.journal.committer.is_gathering()

    @property
    def refusal(self) -> type[UnavailableError] | None:
        """The error with which publishes are refused now, or None."""
        return self._engine.journal.admission.refusal

    @property
    def failed(self) -> "asyncio.Future[MiniqueueError]":
        """Done when the store has failed and could not be reopened; the result is the reason."""
        return self._engine.journal.failed

    @property
    def free_bytes(self) -> int | None:
        """Free space on the disk at the last check; None if there is no disk."""
        return self._engine.journal.admission.free_bytes

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
        """Create a consumer of a topic that leases up to `prefetch` messages at a time.

        The topic and the group need not exist yet. If a member has leased messages and settles none for
        `session_seconds`, it is closed, and `fail` is called with SessionOverError.

        Raises InvalidTopicError, InvalidGroupError, or InvalidPrefetchError, and as `Members.enter`.
        """
        self._engine.limits.check_prefetch(prefetch)
        self.memory.check()
        line, entered = self.members.enter(name, group, member)
        if entered is None:
            return Consumer(self._dispatcher, line, deliver, fail, prefetch)
        return MemberConsumer(self._dispatcher, line, deliver, fail, prefetch, entered, session_seconds=session_seconds)

    def stream(
        self,
        name: bytes,
        options: StreamOptions,
        deliver: Callable[[list[Lease]], None],
        fail: Callable[[MiniqueueError], None],
    ) -> Consumer:
        """Create a consumer with the options of a client's request, of either protocol; raises as `consumer`."""
        prefetch, group, member, session_seconds, lease_seconds = options
        consumer = self.consumer(name, deliver, fail, prefetch or 1, group, member, session_seconds=session_seconds)
        if lease_seconds is not None:
            self._stream_leases.limit(consumer, lease_seconds, has_receipts=prefetch is not None)
        return consumer

    # --- inspecting and removing -------------------------------------------------------------------------------

    def topics(self) -> list[bytes]:
        """Return the names of the existing topics, sorted; the caller must not change the list."""
        return self._engine.topics.existing()

    @property
    def topic_count(self) -> int:
        """The number of topics that count here: a spread topic counts in its home shard only, as one."""
        return self._engine.topics.owned_count(None)

    def stats(self) -> dict[bytes, TopicStats]:
        """Return the statistics of all topics, including those that do not exist yet but have waiting consumers.

        Due messages count as ready only if they were counted since they became due; `Inspect.stats` counts them.
        """
        return {name: stats_of(topic) for name, topic in sorted(self._engine.topics.by_name.items())}

    def faults(self) -> dict[bytes, MiniqueueError]:
        """Return the topics that cannot be read, with the reason for each."""
        topics = self._engine.topics.by_name.values()
        faults = ((topic.name, topic.fault) for topic in compress(topics, map(_fault, topics)))
        return {name: fault for name, fault in faults if fault is not None}

    async def usage(self, user: str | None) -> list[Usage]:
        """Return the usage of one user; with None, that of all clients together, and then that of each user."""
        return await usage_of_all(self._engine) if user is None else [await usage_of(self._engine, user)]

    async def purge(
        self,
        name: bytes,
        state: State | None = None,
        older_seconds: float | None = None,
        group: bytes | None = None,
    ) -> int:
        """Remove current messages of a topic, durably; return how many. See `cleanup.purge`."""
        return await purge(self._engine, self.delayed, name, state, older_seconds, group)

    async def redrive(
        self,
        name: bytes,
        limit: int | None = None,
        per_second: float | None = None,
        target: bytes | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> int:
        """Move dead letters back as `redrive_report` does; return how many, or raise the error that ended it early."""
        report = await self.redrive_report(name, limit, per_second, target, is_wanted)
        if report.error is not None:
            raise report.error
        return report.moved

    async def redrive_report(
        self,
        name: bytes,
        limit: int | None = None,
        per_second: float | None = None,
        target: bytes | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Redriven:
        """Move the ready dead letters of a topic back; return what was done. See `consume.redrive`."""
        return await redrive(
            self._engine,
            self._dispatcher,
            name,
            limit=limit,
            per_second=per_second,
            target=target,
            is_wanted=is_wanted,
        )

    async def trace(
        self, name: bytes, message_id: tuple[int, int] | DelayedId, sees: Callable[[bytes], bool] | None = None
    ) -> list[Step]:
        """Return the steps of a message in order, including its steps in other topics. See `traces.reader`."""
        return await trace(self._engine, self.inspect.messages, name, message_id, sees)

    async def snapshot(self, *, is_followed: bool = False) -> Snapshot:
        """Return a snapshot of the store with everything acknowledged so far, settles included; raises StorageError.

        If `is_followed`, `writes_after` returns what is written after it; raises RequestError for a store in memory.
        """
        self._tracer.hurry()
        await self._engine.journal.commit_settles()  # if this fails, the changes were not acknowledged
        return await self._engine.journal.store.snapshot(is_followed=is_followed)

    @property
    def last_change(self) -> int:
        """Number of the last change of the store."""
        return self._engine.journal.store.last_change

    async def writes_after(self, change: int, digest: bytes, max_bytes: int) -> Writes:
        """Return the writes of the store after a position, as `Store.writes_after` does, and with its errors."""
        return await self._engine.journal.store.writes_after(Position(change, digest), max_bytes)

    # --- from the journal -------------------------------------------------------------------------------------

    def _install(self, content: StoreContent) -> None:
        """Take over the content of the store, at startup and after a fault."""
        self._engine.events.restored(content)
        for topic in list(self._engine.topics.by_name.values()):
            if topic.at_rest is not None:  # the other handlers are called when it wakes
                self._engine.waking.changed(topic)
                self._engine.limits.changed(topic)
                self.admin.changed(topic)
                self._retention.restored(topic)
                continue
            self._engine.events.changed(topic)
            self._engine.cache.touch(topic)
            self._engine.topics.drop_idle(topic)
        self.tick()
        for topic in content.topics:
            if topic.at_rest is None:
                self._engine.events.readable(topic)
