"""A topic in memory: its partitions, and the groups that read them independently of each other.

    topic ── partitions: the messages
      └───── groups, by name ── cursors: one for each partition, with the delivered and returned messages
                             └─ waiters: a queue of consumers, first come, first served
                             └─ book: leases that belong to no connection

Consumers can wait in a group of a topic that does not exist yet, and continue to wait if the topic is deleted.
"""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, compress, count, filterfalse, repeat
from operator import attrgetter, getitem, is_
from typing import TYPE_CHECKING, Final, Protocol

from miniqueue.broker.model.held import MANY_PARTITIONS, TopicUsage
from miniqueue.broker.model.new_partitions import new_partitions
from miniqueue.broker.model.parts import FlowControl, Member, Membership, TopicStats
from miniqueue.broker.model.rates import TopicRates
from miniqueue.broker.model.recording import TopicTrace
from miniqueue.broker.runtime.share import Work
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.lease_book import LeaseBook
from miniqueue.core.cursor.many import revoke_all, set_all, set_each
from miniqueue.core.cursor.receipts import first_receipts, lane_index_of
from miniqueue.core.group.growth import Growth, OldFirst
from miniqueue.core.group.turns import CursorsInTurn, LaneTurns, PartitionTurns, by_priority, turns_among
from miniqueue.core.keyed.reader import SIZES
from miniqueue.core.log.dedup_window import DedupWindow
from miniqueue.core.log.delayed import NO_DELAYS
from miniqueue.core.log.partition import DEFAULT_GROUP, Partition
from miniqueue.core.log.unique_keys import UniqueKeys
from miniqueue.core.message.lanes import FIRST_OTHER_LANE, Priority, lane
from miniqueue.core.message.names import DEFAULT_GROUP_NAME
from miniqueue.core.message.partitioning import partition_for
from miniqueue.core.message.parts import first_partition_of, part_of_partition
from miniqueue.core.settings.settings import DEFAULT_SETTINGS, TopicSettings
from miniqueue.errors import CorruptionError, FormatVersionError, MiniqueueError
from miniqueue.errors.requests import UnknownGroupError

#: Maximum size of the loaded log messages of a group, shared by its partitions, and the minimum share of a partition.
WINDOWS_BYTES = 64 << 20
MIN_WINDOW_BYTES = 64 << 10

#: Number of cursors whose loaded messages are measured together, which is done after each commit.
MEASURED_AT_ONCE: Final = 2048

#: The memory of a topic that is awake, without its partitions; of a partition; and of a group in it.
TOPIC_BYTES: Final = 2000
PARTITION_BYTES: Final = 1300
CURSOR_BYTES: Final = 1700
#: The memory of a value that a group has of its own in the settings of the topic, with the name of the group, at most.
BY_GROUP_BYTES: Final = 400

#: What a topic at rest does not have.
NOT_AT_REST: Final = ("groups", "growths", "partitions", "plain", "sole", "unique_keys")

_returned, _keyed, _unique_keys = attrgetter("returned"), attrgetter("keyed"), attrgetter("unique_keys")
_partition, _next_receipt = attrgetter("partition"), attrgetter("next_receipt")
_number, _cursors = attrgetter("number"), attrgetter("cursors")
_log, _max_bytes = attrgetter("log"), attrgetter("log.max_bytes")

#: Leases the next run of at most `max_count` messages, of those that are due by `horizon_ms`.
Take = Callable[[int, int], tuple[GroupCursor, Lease] | None]


class Waiter(Protocol):
    """A waiting consumer in the queue of a group: it has room for `room` messages, and leases them with `take`."""

    group: "Group"
    member: Member | None
    room: int
    take: Take

    def may_take(self) -> bool:
        """Return whether its client may use memory for messages; if not, a request that waits leaves with an error.

        It is only asked while an account is over its limit.
        """
        ...

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; this can reduce `room`."""
        ...

    def deliver(self, leases: list[Lease], /) -> None:
        """Receive the leases that were taken over; leave the queue if no more are wanted."""
        ...

    def fail(self, error: MiniqueueError, /) -> None:
        """Receive the error that the topic cannot be read; the consumer has already left the queue."""
        ...


class Group:
    """An independent reader of a topic.

    Attributes:
      topic: the topic that it reads.
      name: the name of the group; `id` is its number in the store's keys, None while the group does not exist.
      cursors: its cursors, in the order in which messages are taken from them.
      load_order: the cursors that may be loaded next, in order.
      waiters: the consumers that wait for messages.
      set_aside: the consumers that wait until there is memory for messages for them.
      consumer_count: number of consumers, including those that do not wait now.
      membership: the partitions of each member, while consumers are members; else they compete for all partitions.
      book: the leases that belong to no connection, if there are any.
      old_first: the messages that are held back since partitions were added, if any are.
      flow: controls the flow by keys and limits; None: no control.
      is_loading: whether messages are being loaded for it.
      loaded_bytes: the memory of its loaded messages when it was last measured; only of topics with many cursors.
      is_paused: whether deliveries to its consumers are paused, besides those of the whole topic.
      was_read: whether a consumer has left since the last check for idle groups; see `groups.idle`.
      unread_seconds: time without a consumer, as of the last check.
      is_postponed: whether a later event-loop iteration delivers more, or removes more expired messages.

    The methods of the group and of its topic write its fields. Other modules only read them, except:

    | field                      | other modules that write it                                     |
    |----------------------------|-----------------------------------------------------------------|
    | `book`                     | `broker.leases.leases`                                          |
    | `flow`, `old_first`        | `broker.model.flow`                                             |
    | `is_postponed`             | `broker.consume.dispatcher`                                     |
    | `is_paused`                | `broker.topics.admin`                                           |
    | `membership`               | `broker.consume.members`                                        |
    | `unread_seconds`           | `broker.groups.idle`; `broker.model.rest` restores it           |
    | `set_aside`                | `broker.consume.dispatcher`                                     |
    | `waiters`                  | `broker.consume.dispatcher`, which serves them in turn;         |
    |                            | `broker.leases.receive`: one that waits for a load is the first |
    | `was_read`                 | `broker.consume.dispatcher` sets it, `broker.groups.idle`       |
    |                            | resets it; `broker.model.rest` restores it                      |
    """

    __slots__ = (
        "_load_ended",
        "_receipts",
        "_turns",
        "book",
        "consumer_count",
        "cursors",
        "flow",
        "id",
        "is_loading",
        "is_paused",
        "is_postponed",
        "load_order",
        "loaded_bytes",
        "membership",
        "name",
        "old_first",
        "set_aside",
        "topic",
        "unread_seconds",
        "waiters",
        "was_read",
    )

    def __init__(self, topic: "Topic", name: bytes) -> None:
        self.topic = topic
        self.name = name
        self.book: LeaseBook | None = None
        self.cursors: list[GroupCursor] = []
        self.load_order: Iterable[GroupCursor] = ()
        self.loaded_bytes = 0
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        self.set_aside: dict[Waiter, None] = {}
        self.consumer_count = 0
        self._receipts: dict[int, int] = {}  # next receipt of each partition, also of former ones
        self.membership: Membership | None = None
        self._turns: LaneTurns | PartitionTurns | None = None
        self._load_ended: asyncio.Future[None] | None = None  # set while a caller waits for it
        self.clear()

    def clear(self) -> None:
        """End the group and its leases, because the topic is deleted or read again; keep the consumers that wait."""
        self.flow: FlowControl | None = None
        self.old_first: OldFirst | None = None
        if self.cursors:  # a new group has none
            revoke_all(self.cursors)
        self.replace(())
        self.id: int | None = None
        if self.book is not None:
            self.book.clear()
            self.book = None
        self.is_postponed = self.is_paused = False
        self.was_read, self.unread_seconds = True, 0.0
        self.end_loading()

    def enter(self) -> None:
        """Count a consumer more; it need not wait."""
        self.consumer_count += 1

    def remove(self, consumer: Waiter) -> None:
        """Count a consumer less, which no longer waits."""
        self.waiters.pop(consumer, None)
        if self.set_aside:
            self.set_aside.pop(consumer, None)
        self.consumer_count -= 1

    def is_waiting(self, consumer: Waiter) -> bool:
        """Whether a consumer waits for messages, or for memory for them."""
        return consumer in self.waiters or consumer in self.set_aside

    @property
    def waiting_count(self) -> int:
        """Number of consumers that wait for messages, or for memory for them."""
        return len(self.waiters) + len(self.set_aside)

    def begin_loading(self) -> None:
        """Record that messages are being loaded; the caller calls `end_loading`."""
        self.is_loading = True

    def end_loading(self) -> None:
        """Record that loading has ended; callers that wait for this continue in a later event-loop iteration."""
        self.is_loading = False
        if self._load_ended is not None:
            self._load_ended.set_result(None)
            self._load_ended = None

    async def load_ended(self) -> None:
        """Wait until the current load has ended, or the topic is deleted."""
        await asyncio.shield(self._end_of_load())

    def when_load_ended(self, hear: Callable[[], None]) -> None:
        """Call `hear` in the event-loop iteration after the next load has ended, or the topic is deleted."""
        self._end_of_load().add_done_callback(lambda _: hear())

    def _end_of_load(self) -> "asyncio.Future[None]":
        if self._load_ended is None:
            self._load_ended = asyncio.get_running_loop().create_future()
        return self._load_ended

    def replace(self, cursors: Iterable[GroupCursor]) -> None:
        """Continue with other cursors; the caller raises `Events.changed`.

        Receipts are not reused: the receipt of an ended lease must not name a message that is delivered later. Each
        partition has receipts of its own.
        """
        receipts, before = self._receipts, set(self.cursors)
        receipts.update(zip(map(_partition, self.cursors), map(_next_receipt, self.cursors), strict=True))
        self.topic.held_at_most = None
        self.cursors = [*chain.from_iterable(by_priority(cursors))]
        # There may be thousands of cursors, so that no line of Python runs for each; and a single one may be new.
        if added := [*filterfalse(before.__contains__, self.cursors)]:
            numbers = [*map(_partition, added)]
            unknown = [*filterfalse(receipts.__contains__, numbers)]
            part = part_of_partition(self.topic.first_partition)
            receipts.update(zip(unknown, first_receipts(len(receipts), len(unknown), part), strict=True))
            set_each(added, "next_receipt", map(receipts.__getitem__, numbers))
        most_bytes = _window_bytes(len(self.cursors))
        if larger := [*compress(self.cursors, map(most_bytes.__lt__, map(_max_bytes, self.cursors)))]:
            set_all(map(_log, larger), "max_bytes", most_bytes)
        self.load_order = self.cursors if len(self.cursors) <= 1 else CursorsInTurn(self.cursors, self.waiters)
        self._turns = None if len(self.cursors) == 1 else turns_among(self.cursors)
        if self.membership is not None:
            self.membership.cursors_replaced()

    def partition_of(self, receipt: int) -> int:
        """Return the number of the partition, or lane, of a message that was delivered with this receipt."""
        return [*self._receipts][lane_index_of(receipt)]

    def fail(self, fault: MiniqueueError) -> None:
        """Remove all waiting consumers from the queue, and pass them the fault."""
        # A consumer that waits again when it receives the fault is not in this list.
        for waiting in (self.waiters, self.set_aside):
            for consumer in list(waiting):
                if consumer in waiting:
                    del waiting[consumer]
                    consumer.fail(fault)

    def receipts(self) -> dict[int, int]:
        """Return the next receipt of each partition, also of former ones."""
        return self._receipts | {cursor.partition: cursor.next_receipt for cursor in self.cursors}

    def resume(self, receipts: dict[int, int]) -> None:
        """Continue a group that was at rest; the caller gives it its cursors next.

        A group whose consumers waited while the store was read again has receipts of its own, which go further.
        """
        self._receipts = self._receipts or receipts

    def begin(self, group_id: int, cursors: Iterable[GroupCursor]) -> None:
        """Exist from now on, with this id and these cursors."""
        self.id = group_id
        self.replace(cursors)

    @property
    def depth(self) -> int:
        """Number of unacknowledged messages: ready, leased, and delayed."""
        cursors = self.cursors
        return total("tail_seq", cursors) - total("acked_count", cursors) - total("dropped_count", cursors)

    def waiting(self) -> tuple[int, int]:
        """Return the number of committed messages that are not leased, and the size of their payloads."""
        cursors = self.cursors
        return (
            self.depth - total("leased_count", cursors),
            total("tail_bytes", cursors) - total("gone_bytes", cursors) - total("leased_bytes", cursors),
        )

    @property
    def is_blocked(self) -> bool:
        """Whether the last `take` could not continue until messages are read from the store."""
        if self._turns is not None:
            return self._turns.is_blocked
        return any(cursor.blocked_on is not None for cursor in self.cursors)

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages; None while the topic or the group is paused.

        Some of them may have expired: `cleanup.expiry` checks this.
        """
        topic = self.topic
        if (
            topic.is_paused_out
            or self.is_paused
            or (self.flow is not None and not (max_count := self.flow.room(max_count)))
        ):
            return None
        if self._turns is None:
            cursor = self.cursors[0]
            lease = cursor.take(max_count, horizon_ms)
            if lease is None:
                return None
        elif (taken := self._turns.take(max_count, horizon_ms)) is not None:
            cursor, lease = taken
        else:
            return None
        if self.flow is not None:
            self.flow.spend(lease.count)
        if (pulse := topic.pulse) is not None and pulse.wanted:
            pulse.handed_out(lease)
        return cursor, lease

    def take_from(
        self, turns: LaneTurns | PartitionTurns, max_count: int, horizon_ms: int
    ) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages of some of the cursors, as `take` does."""
        topic = self.topic
        if (
            topic.is_paused_out
            or self.is_paused
            or (self.flow is not None and not (max_count := self.flow.room(max_count)))
        ):
            return None
        taken = turns.take(max_count, horizon_ms)
        if taken is not None:
            if self.flow is not None:
                self.flow.spend(taken[1].count)
            if (pulse := topic.pulse) is not None and pulse.wanted:
                pulse.handed_out(taken[1])
        return taken


class TopicAtRest(Protocol):
    """What a topic at rest has of its partitions and groups; implemented by `rest.Rest`."""

    consumed_bytes: int
    lane_count: int
    partition_count: int
    stats: TopicStats
    stored_bytes: int
    trim_at_ms: float
    unread_seconds: float

    @property
    def size_bytes(self) -> int:
        """The memory of the topic, about."""
        ...

    @property
    def is_wide(self) -> bool:
        """Whether the topic has more cursors than one event-loop iteration may make."""
        ...

    def wake(self, topic: "Topic") -> None:
        """Give a topic its partitions and groups again, all at once."""
        ...

    def coming_back(self, topic: "Topic") -> Work[None]:
        """Give a topic its partitions and groups again, unless anything else has woken or changed it meanwhile."""
        ...


class Topic:
    """A named topic.

    A topic in which nothing is can be put to rest (`rest`): then it has no `groups`, `growths`, `partitions`, `plain`,
    `sole`, and `unique_keys`, and wakes when one of them is used. Code that inspects all topics checks `at_rest` first.

    Attributes:
      at_rest: what the topic has instead while it is at rest; None while it is awake.
      id: None until the first publish, and again after the topic was deleted: consumers can wait on a topic that does
        not exist yet, and continue to wait if it is deleted.
      fault: the error that makes the topic unreadable, if any.
      first_partition: the number of the first partition, which always exists: 0, except for a part of a spread topic.
      partitions: the partitions by number; the first `partition_count` from `first_partition` on have no priority.
      plain: the partition to which messages without a key are published now.
      sole: the only partition with the only cursor, while there is exactly one of each.
      groups: the groups by name; that of plain clients is always an entry.
      pulse: times deliveries, if the topic is watched.
      trace: records what happens to messages, if the topic is traced.
      growths: the ends of the logs whenever partitions were added.
      held_at_most: an upper bound of the content; counted only if `max_messages` or `max_bytes` is a limit.
      dedup: the ids of recent publishes, if there are any; `unique_keys`: the state of unique keys.
      expired_count: number of messages that have expired since startup.
      ttl_ms: time to live of messages without their own; 0: unlimited.
      duplicate_count: number of duplicate publishes since startup.
      lease_timeout_count: number of messages whose leases have timed out since startup.
      measured: the owner, and the result of `measure`, that count now.

    The methods of the topic write its fields. Other modules only read them, except:

    | field                            | other modules that write it                               |
    |----------------------------------|-----------------------------------------------------------|
    | `at_rest.unread_seconds`         | `broker.groups.idle`                                      |
    | `dedup`, `duplicate_count`       | `broker.publish.duplicates`                               |
    | `expired_count`                  | `broker.cleanup.expiry`                                   |
    | `growths`                        | `broker.engine.lanes`                                     |
    | `held_at_most`                   | `broker.model.limits`; `broker.engine.lanes` resets it    |
    |                                  | for messages that were added without a check              |
    | `held_at_most.is_exact`          | `broker.commit.journal`                                   |
    | `is_limited`                     | `broker.model.limits`                                     |
    | `max_bytes`, `max_messages`      | `broker.model.limits`                                     |
    | `is_paused_in`, `is_paused_out`  | `broker.topics.admin`                                     |
    | `lease_timeout_count`            | `broker.leases.leases`, `broker.consume.stream_leases`    |
    | `measured`                       | `broker.model.limits`                                     |
    | `pulse`                          | `broker.inspect.rates`                                    |
    | `settings`                       | `broker.engine.topics`, `broker.topics.admin`             |
    | `ttl_ms`                         | `broker.topics.admin`                                     |
    | `trace`                          | `broker.traces.tracer`                                    |
    """

    __slots__ = (
        "_measured_group",
        "at_rest",
        "dedup",
        "duplicate_count",
        "expired_count",
        "fault",
        "first_partition",
        "groups",
        "growths",
        "held_at_most",
        "id",
        "is_limited",
        "is_paused_in",
        "is_paused_out",
        "lease_timeout_count",
        "max_bytes",
        "max_messages",
        "measured",
        "name",
        "partition_count",
        "partitions",
        "plain",
        "pulse",
        "settings",
        "sole",
        "trace",
        "ttl_ms",
        "unique_keys",
    )

    plain: Partition  # set while the topic exists

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.first_partition = first_partition_of(name)
        self.held_at_most: TopicUsage | None = None
        self.max_messages = self.max_bytes = sys.maxsize
        self.is_limited = False
        self.pulse: TopicRates | None = None
        self.expired_count = 0
        self.duplicate_count = 0
        self.lease_timeout_count = 0
        self.measured = ("", 0, 0)
        self._measured_group = 0
        self._empty()
        self.clear()

    def _empty(self) -> None:
        """Begin without partitions, and with no group but that of plain clients."""
        self.at_rest: TopicAtRest | None = None
        self.sole: tuple[Partition, GroupCursor] | None = None
        self.partitions: dict[int, Partition] = {}
        self.growths: list[Growth] = []
        self.unique_keys = UniqueKeys()
        self.groups = {DEFAULT_GROUP_NAME: Group(self, DEFAULT_GROUP_NAME)}

    def rest(self, at_rest: TopicAtRest) -> None:
        """Free the partitions and groups, in which nothing is, until one of them is used."""
        for group in self.groups.values():
            group.clear()  # its cursors refer to the topic
        self.held_at_most = self.pulse = None
        for name in NOT_AT_REST:
            with suppress(AttributeError):
                delattr(self, name)
        self.at_rest = at_rest

    if not TYPE_CHECKING:  # it would hide misspelled attributes

        def __getattr__(self, name: str) -> object:
            """Wake the topic if it is at rest; only called for an attribute that it does not have."""
            at_rest = self.at_rest
            if at_rest is None:
                raise AttributeError(f"a topic has no {name} now")
            at_rest.wake(self)
            return getattr(self, name)

    def clear(self) -> None:
        """Become a topic that does not exist: end every lease, drop every message, keep the consumers that wait."""
        if self.at_rest is not None:
            self._empty()
        self.trace: TopicTrace | None = None
        for group in list(self.groups.values()):
            group.clear()
            self.drop_idle(group)
        self.id: int | None = None
        self.fault: MiniqueueError | None = None
        self.settings = DEFAULT_SETTINGS
        self.is_paused_in = self.is_paused_out = False
        self.ttl_ms = 0
        self.dedup: DedupWindow | None = None
        self.unique_keys = UniqueKeys()
        self.partitions = {}
        self.growths = []
        self.partition_count = 1
        self.sole = None

    def begin(
        self,
        topic_id: int,
        names: Iterable[bytes] = (),
        settings: TopicSettings = DEFAULT_SETTINGS,
    ) -> None:
        """Create the topic, empty, with `settings`, except that it has one partition.

        It has the groups in `names`, and, if `auto_create_groups` is set, the groups in which a consumer waits; if
        there are none, the default group.
        """
        self.id = topic_id
        self.settings = settings
        ids = self.first_ids(names, settings)
        for name, group_id in ids.items():
            self.group(name).id = group_id
        self.add_partitions(new_partitions([self.first_partition], ids.values()))
        self.plain = self.partitions[self.first_partition]

    def first_groups(self, names: Iterable[bytes], settings: TopicSettings) -> list[bytes]:
        """Return the names of the groups with which the topic would begin; see `begin`."""
        waiting = (name for name, group in self.groups.items() if group.consumer_count)
        return list(dict.fromkeys([*names, *(waiting if settings.auto_create_groups else ())])) or [DEFAULT_GROUP_NAME]

    def first_ids(self, names: Iterable[bytes], settings: TopicSettings) -> dict[bytes, int]:
        """Return the ids of the groups with which the topic would begin; see `begin`."""
        ids = dict(zip(self.first_groups(names, settings), count(1), strict=False))
        if DEFAULT_GROUP_NAME in ids:
            ids[DEFAULT_GROUP_NAME] = DEFAULT_GROUP
        return ids

    def fill(
        self,
        topic_id: int,
        partitions: dict[int, Partition],
        group_ids: dict[bytes, int],
        *,
        settings: TopicSettings = DEFAULT_SETTINGS,
        growths: list[Growth] | None = None,
        dedup: DedupWindow | None = None,
        fault: MiniqueueError | None = None,
    ) -> None:
        """Become a stored topic, after `clear`; keep the consumers that wait."""
        self.id = topic_id
        self.settings, self.fault, self.dedup = settings, fault, dedup
        self.growths = growths or []
        self.partitions = partitions
        self.plain = partitions[self.first_partition]
        for name, group_id in group_ids.items():
            self.group(name).begin(group_id, [partition.cursors[group_id] for partition in partitions.values()])
        self._look_for_sole()
        self._share_keys()

    def become(self, other: "Topic") -> None:
        """Become a stored topic, after `clear`, which is at rest; wake at once if consumers wait."""
        at_rest = other.at_rest
        assert at_rest is not None  # the caller has checked it
        self.id, self.settings, self.partition_count = other.id, other.settings, other.partition_count
        if any(group.consumer_count for group in self.groups.values()):
            at_rest.wake(self)
        else:
            at_rest.stats = replace(at_rest.stats, expired=self.expired_count, duplicates=self.duplicate_count)
            self.rest(at_rest)

    def come_back(self, partitions: dict[int, Partition], groups: dict[bytes, Group], plain_number: int) -> None:
        """Take over the partitions and groups from before a rest, all of which were made before."""
        if self.at_rest is not None:
            self._empty()
        self.groups |= groups
        self.partitions = partitions
        self.plain = partitions[plain_number]
        self._look_for_sole()
        self._share_keys()

    def note_fault(self, fault: MiniqueueError) -> None:
        """Make the topic unreadable if its messages are damaged; another fault of reading may be temporary."""
        if isinstance(fault, CorruptionError | FormatVersionError):
            self.fault = fault

    def group(self, name: bytes) -> Group:
        """Return the group with a name, which need not exist."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(self, name)
        return group

    def check_use(self, name: bytes) -> None:
        """Raise UnknownGroupError unless consumers may use the group with this name, which need not exist."""
        settings = self.settings
        if self.id is None or (settings.auto_create_groups and settings.default_group):
            return
        if name == DEFAULT_GROUP_NAME and not settings.default_group:
            raise UnknownGroupError("group default: this topic was made without it (default_group); name another group")
        group = self.groups.get(name)
        if not settings.auto_create_groups and (group is None or group.id is None):
            raise UnknownGroupError(
                f"group {name.decode()}: there is none, and in this topic using one does not make it "
                "(auto_create_groups); create it first"
            )

    @property
    def default(self) -> Group:
        """The group of plain clients, which need not exist."""
        return self.group(DEFAULT_GROUP_NAME)

    @property
    def existing_groups(self) -> list[Group]:
        """The groups that exist; at least one, unless the topic does not exist."""
        return [group for group in self.groups.values() if group.id is not None]

    @property
    def group_ids(self) -> set[int]:
        """The ids of the groups that exist."""
        return {group.id for group in self.groups.values() if group.id is not None}

    @property
    def has_named_groups(self) -> bool:
        """Whether groups other than the default group exist."""
        return any(group is not self.default for group in self.existing_groups)

    def group_of(self, cursor: GroupCursor) -> Group:
        """Return the group that has a cursor of this topic."""
        return next((group for group in self.groups.values() if group.id == cursor.group), self.default)

    def drop_idle(self, group: Group) -> None:
        """Drop a group that does not exist and in which no consumer waits."""
        if group.id is None and not group.consumer_count and group is not self.default:
            self.groups.pop(group.name, None)

    def set_cursors(self, group: Group, group_id: int | None, cursors: dict[int, GroupCursor]) -> None:
        """Give a group these cursors, by partition, and this id; None and no cursors delete the group."""
        for partition in self.partitions.values():
            partition.replace(group.id, None if group_id is None else cursors[partition.number])
        group.clear()
        group.id = group_id
        group.replace(cursors.values())
        self._look_for_sole()
        self._share_keys()

    def add_partitions(self, added: Sequence[Partition]) -> None:
        """Add empty partitions that all groups read; the caller stores them."""
        self.partitions |= zip(map(_number, added), added, strict=True)
        for group in self.existing_groups:
            group.replace([*group.cursors, *map(getitem, map(_cursors, added), repeat(group.id))])
        self._look_for_sole()
        self._share_keys()

    def number_for(self, key: bytes, priority: Priority) -> int:
        """Return the number of the partition, or lane, to which a message is published next; the key b"" means none."""
        if not key:
            return lane(self.plain.number, priority)
        return lane(self.first_partition + partition_for(key, self.partition_count), priority)

    def turn(self) -> None:
        """Switch to the next partition for messages without a key."""
        first = self.first_partition
        self.plain = self.partitions[first + (self.plain.number - first + 1) % self.partition_count]

    def _share_keys(self) -> None:
        """Share the unique keys with the cursors of `key_group`, which frees a key when it settles the message."""
        owner = self.key_group
        for group in self.existing_groups:
            unique_keys = self.unique_keys if group is owner else None
            if not all(map(is_, map(_unique_keys, group.cursors), repeat(unique_keys))):
                set_all(group.cursors, "unique_keys", unique_keys)

    @property
    def key_group(self) -> Group | None:
        """The group whose settles free unique keys: the default group, or else the first by name."""
        groups = self.existing_groups
        return self.default if self.default in groups else min(groups, key=attrgetter("name"), default=None)

    def _look_for_sole(self) -> None:
        self.partition_count = sum(map(FIRST_OTHER_LANE.__gt__, self.partitions))
        partition = self.partitions[self.first_partition]
        cursors = [*partition.cursors.values()]
        self.sole = (partition, cursors[0]) if len(self.partitions) == len(cursors) == 1 else None

    def dissolve(self) -> None:
        """Drop the groups of an idle topic that is dropped itself: they refer to it, and a cycle is not freed at once.

        An act that still waits with this topic finds that it does not exist.
        """
        self.groups = {}
        self.pulse = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when this object is dropped."""
        return self.id is None and not any(group.consumer_count for group in self.groups.values())

    @property
    def cursors(self) -> list[GroupCursor]:
        """The cursors of all groups."""
        return [*chain.from_iterable(map(attrgetter("cursors"), self.groups.values()))]

    @property
    def lane_count(self) -> int:
        """Number of partitions, with those of all priorities."""
        return len(self.partitions) if self.at_rest is None else self.at_rest.lane_count

    def measure(self) -> tuple[int, int]:
        """Return the number of partitions, each once for each group, and the approximate memory without messages."""
        if self.id is None:
            return 0, 0
        settings_bytes = BY_GROUP_BYTES * self.settings.by_group_count + len(self.settings.schema or "")
        if self.at_rest is not None:
            return self.at_rest.partition_count, self.at_rest.size_bytes + settings_bytes
        count = len(self.partitions) * len(self.existing_groups)
        own_bytes = TOPIC_BYTES + PARTITION_BYTES * len(self.partitions) + CURSOR_BYTES * count
        return count, own_bytes + settings_bytes

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the loaded messages; of many cursors, those of one group are measured each time."""
        if self.at_rest is not None:
            return 0
        if self.sole is not None or len(self.partitions) < MANY_PARTITIONS:
            return size_bytes(self.cursors)
        groups = self.existing_groups
        if len(groups) * len(self.partitions) <= MEASURED_AT_ONCE:
            return size_bytes(self.cursors)
        self._measured_group = (self._measured_group + 1) % len(groups)
        group = groups[self._measured_group]
        group.loaded_bytes = size_bytes(group.cursors)
        return total("loaded_bytes", groups)

    @property
    def consumed_bytes(self) -> int:
        """Approximate size of what was deleted on disk since space was last reclaimed."""
        if self.at_rest is not None:
            return self.at_rest.consumed_bytes
        return total("consumed_bytes", self.partitions.values())

    def held(self) -> tuple[int, int]:
        """Return the number of unacknowledged messages and the size of their payloads, including uncommitted ones."""
        if self.sole is None:
            return self._held_by_last()
        partition, cursor = self.sole
        delayed = partition.delays.state
        return (
            partition.next_seq - cursor.acked_count - cursor.dropped_count + delayed.message_count,
            partition.log_bytes - cursor.gone_bytes + delayed.size_bytes,
        )

    @property
    def stored_bytes(self) -> int:
        """Size of the payloads and attributes that the topic holds, including those that it retains."""
        if self.at_rest is not None:
            return self.at_rest.stored_bytes
        if self.sole is not None and self.sole[0].retained is None:  # the usual case, of which there may be thousands
            return self.held()[1]
        retained_bytes = sum(partition.retained_bytes for partition in self.partitions.values())
        return max(self.held()[1], retained_bytes)

    def count_held(self) -> TopicUsage:
        """Count unacknowledged messages, as `held` does; keep the result."""
        held = TopicUsage(*self.held())
        held.is_exact = len(self.partitions) >= MANY_PARTITIONS
        self.held_at_most = held
        return held

    @property
    def depth(self) -> int:
        """Number of messages that the slowest group has not acknowledged, plus delayed messages."""
        delayed_count = sum(partition.delays.committed.message_count for partition in self.partitions.values())
        return (0 if self.last_group is None else self.last_group.depth) + delayed_count

    def _held_by_last(self) -> tuple[int, int]:
        """Return what `held` returns if there are lanes or several groups: the content of the slowest group."""
        partitions, lines = self.partitions.values(), [group.cursors for group in self.existing_groups] or [[]]
        done_count = min(total("acked_count", cursors) + total("dropped_count", cursors) for cursors in lines)
        done_bytes = min(total("gone_bytes", cursors) for cursors in lines)
        states = [*map(attrgetter("delays.state"), partitions)]
        delayed = states if states.count(NO_DELAYS) < len(states) else []
        return (
            total("next_seq", partitions) - done_count + total("message_count", delayed),
            total("log_bytes", partitions) - done_bytes + total("size_bytes", delayed),
        )

    @property
    def uncommitted_bytes(self) -> int:
        """Size of the payloads that the next commit adds."""
        return total("log_bytes", self.partitions.values()) - total("tail_bytes", self.existing_groups[0].cursors)

    @property
    def uncommitted_count(self) -> int:
        """Number of messages that the next commit adds."""
        return total("next_seq", self.partitions.values()) - total("tail_seq", self.existing_groups[0].cursors)

    @property
    def last_group(self) -> Group | None:
        """The slowest group, which determines what the store must keep."""
        groups = self.existing_groups
        return max(groups, key=attrgetter("depth")) if len(groups) > 1 else groups[0] if groups else None

    def evict(self) -> None:
        """Free memory."""
        for group in () if self.at_rest is not None else self.groups.values():
            group.loaded_bytes = 0
        for cursor in () if self.at_rest is not None else self.cursors:
            cursor.evict()


def _window_bytes(cursor_count: int) -> int:
    """Return the maximum size of the loaded log messages of each of many cursors.

    It is the same for as many cursors as the next power of two, so that one more rarely changes that of the others.
    """
    return max(MIN_WINDOW_BYTES, WINDOWS_BYTES >> max(0, cursor_count - 1).bit_length())


def total(name: str, things: Iterable[object]) -> int:
    """Return the sum of an attribute over many objects."""
    result: int = sum(map(attrgetter(name), things))
    return result


def size_bytes(cursors: Sequence[GroupCursor]) -> int:
    """Return the approximate memory use of many cursors' loaded messages, like `GroupCursor.size_bytes` of one."""
    windows = chain.from_iterable(map(_returned, cursors))
    keyed_bytes: int = sum(chain.from_iterable(map(SIZES, filter(None, map(_keyed, cursors)))))
    return total("log.size_bytes", cursors) + total("size_bytes", windows) + keyed_bytes
