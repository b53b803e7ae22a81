"""Delivers messages to waiting consumers, and commits what they settle and return."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from itertools import chain, islice
from typing import Any, Final, TypeVar

from miniqueue.broker.cleanup.expiry import sift
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.engine.load import load_ahead
from miniqueue.broker.model.flow import apply_to
from miniqueue.broker.model.topic import Group, Topic, Waiter
from miniqueue.broker.runtime import parts
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.holding import CursorLease, size_of
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.returning import FrontPlaces
from miniqueue.errors import MiniqueueError

T = TypeVar("T")

#: Maximum number of leases that are delivered in one event-loop iteration; a message with attributes counts as a lease,
#: because each is encoded on its own.
MAX_DELIVERED: Final = 80
#: To look for messages in so many partitions costs about as much as to deliver a lease.
POLLED_AS_LEASE: Final = 12
#: Maximum number of messages that are returned together, and what one of them costs in `parts`: it gets a record, may
#: become a dead letter, and may be delivered again.
MAX_RETURNED: Final = 50
RETURN_COST: Final = 40
#: Maximum number of turns in which messages are settled before a commit, which is encoded in one iteration.
MAX_TURNS_IN_COMMIT: Final = 3
#: With so much uncommitted, messages are returned in turns, each of which waits for the commit: a hundred clients can
#: leave at once, and the commit has several copies of what they held.
MUCH_UNCOMMITTED_BYTES: Final = 4 << 20


class Dispatcher:
    """Serves consumers, first come, first served.

    Args:
      engine: provides the topics; the dispatcher drops topics that are no longer needed.
      begin: creates a group that is read for the first time.

    Attributes:
      clock: the clock of the engine; it also measures leases and the message rates of groups.
      due_at_ms: converts a delay to a due time; see `Horizon.due_at_ms`.
    """

    def __init__(self, engine: Engine, *, begin: Callable[[Group], None]) -> None:
        self._engine = engine
        self._topics = engine.topics.by_name
        self.clock = engine.clock
        self._horizon = engine.horizon
        self.due_at_ms = engine.horizon.due_at_ms
        self._journal = engine.journal
        self._cache = engine.cache
        self._memory = engine.memory
        self._load_ahead = partial(load_ahead, engine)
        self._begin = begin
        self._lines: dict[Group, None] = {}  # groups with waiting consumers, or that had some until the last tick
        self._postponed: dict[Group, None] | None = None  # groups to dispatch when `many_leave` ends; else None
        self._later: dict[Group, None] = {}  # groups to dispatch in the next iteration
        self._hungry: dict[Group, None] = {}  # groups with consumers that were set aside
        self._is_resuming = False
        self._room = MAX_DELIVERED  # how much more may be delivered in this iteration
        self._gate = asyncio.Lock()
        self._turn_count, self._turned_in = 0, self._journal.committer.open  # turns before this commit

    def tick(self) -> None:
        """Deliver the delayed messages that are due now."""
        self._horizon.advance()
        self._room = MAX_DELIVERED
        self.resume_soon()
        for group in list(self._lines):
            if group.waiters:
                self._dispatch(group)
            else:
                del self._lines[group]

    def serve(self, consumer: Waiter) -> None:
        """Deliver the messages that `consumer` has room for, now or when there are some."""
        group = consumer.group
        if (fault := group.topic.fault) is not None:
            raise fault
        self._room = MAX_DELIVERED
        if self._memory.over_count and not consumer.may_take():
            group.waiters[consumer] = None
            self._set_aside(consumer)
            if group.id is None:
                self._begin(group)
            return
        leases = [] if group.waiters and consumer.member is None else self._fill(consumer)
        if consumer.room:
            group.waiters[consumer] = None
            self._lines[group] = None
            if group.id is None:
                self._begin(group)
        if leases:
            consumer.deliver(leases)
        self._load_ahead(group)

    def _fill(self, consumer: Waiter) -> list[Lease]:
        """Pass ready messages to `consumer`, as many as it has room for, and one iteration may; return their leases."""
        leases: list[Lease] = []
        group, most = consumer.group, self._room
        while (room := consumer.room) and (taken := consumer.take(room, self._horizon.at_ms)) is not None:
            cursor, lease = taken
            if lease.attributes is None and not group.topic.ttl_ms:  # the messages cannot have expired
                consumer.hold(cursor, lease)
                leases.append(lease)
            elif live := sift(self._engine, group, taken, partial(consumer.take, room, self._horizon.at_ms)):
                for held in live:
                    consumer.hold(*held)
                leases += [lease for _, lease in live]
                most -= sum(lease.count - 1 for _, lease in live if lease.attributes is not None)
            else:
                if live is None:
                    self._dispatch_later(group)
                break
            if len(leases) >= most:
                self._dispatch_later(group)
                break
        self._room = most - len(leases)
        return leases

    def _set_aside(self, consumer: Waiter) -> None:
        """Make a stream wait for memory; a request that was refused does not wait any more."""
        group = consumer.group
        if consumer in group.waiters:
            del group.waiters[consumer]
            group.set_aside[consumer] = None
            self._hungry[group] = None

    def resume_soon(self) -> None:
        """Serve those that were set aside, because memory was freed."""
        if self._hungry and not self._is_resuming:
            self._is_resuming = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        """Serve the first of those that were set aside, before others; go on while no account is over its limit."""
        self._is_resuming = False
        self._room = room = MAX_DELIVERED
        for group in list(islice(self._hungry, room)):
            del self._hungry[group]
            again = list(islice(group.set_aside, room))
            for consumer in reversed(again):
                del group.set_aside[consumer]
                if consumer.room:  # it may have been served meanwhile
                    group.waiters[consumer] = None
                    group.waiters.move_to_end(consumer, last=False)
            room -= len(again)
            if group.set_aside:
                self._hungry[group] = None
            if group.waiters:
                self._dispatch(group)
        if not self._memory.over_count:
            self.resume_soon()

    def _dispatch_later(self, group: Group) -> None:
        """Serve a group in the next event-loop iteration, because this one has done enough."""
        if not self._later:
            asyncio.get_running_loop().call_soon(self._dispatch_more)
        self._later[group] = None
        group.is_postponed = True

    def _dispatch_more(self) -> None:
        groups, self._later = self._later, {}
        self._room = MAX_DELIVERED
        for group in groups:
            group.is_postponed = False
            self._dispatch(group)
            if not (group.is_postponed or group.is_loading):
                group.end_loading()  # a request that collects messages need not wait for more

    def settled(self, group: Group, returned_bytes: int | None = None) -> None:
        """Request a commit of settled messages, and deliver those that were returned to other consumers.

        Args:
          group: the group of the messages.
          returned_bytes: if they were returned, their size, since the commit writes them again; otherwise None.
        """
        self._journal.touch(group.topic)
        self._journal.committer.request_soon()
        if returned_bytes is not None:
            self._journal.committer.open.size_bytes += returned_bytes
            if group.waiters or self._postponed is not None:
                self.dispatch(group)
        elif group.flow is not None:
            group.flow.settled()

    def consumer_left(
        self,
        group: Group,
        held: Iterable[Sequence[CursorLease]] = (),
        held_count: int = 0,
        cause: str = "disconnects",
    ) -> None:
        """Return the messages that a leaving consumer held to the front, in their order, counted as `cause`.

        Many are returned in turns.

        Args:
          group: the group of the consumer.
          held: the leases, at most `MAX_RETURNED` messages at a time.
          held_count: number of messages of these leases.
          cause: the count that the return increments.
        """
        if held_count:
            self.in_parts(self._return(group, held, held_count, cause))
        topic = group.topic
        group.was_read = True
        topic.drop_idle(group)
        if topic.is_idle and self._topics.get(topic.name) is topic:  # another topic may have its name by now
            del self._topics[topic.name]
            topic.dissolve()

    async def turns(self) -> AsyncGenerator[None, None]:
        """Yield in turns of the event loop, for work that settles many messages; see `MAX_TURNS_IN_COMMIT`."""
        committer = self._journal.committer
        async with aclosing(self._engine.share.pauses(is_for_all=True)) as pauses:
            while True:
                async with self._gate:  # what one act adds in its turn, the next one sees
                    if self.is_crowded() or self._has_had_turns():
                        with suppress(MiniqueueError):  # if the commit fails, memory is dropped, and this act with it
                            await committer.flush()
                    await anext(pauses)
                if self._turned_in is not committer.open:
                    self._turn_count, self._turned_in = 0, committer.open
                self._turn_count += 1
                yield

    def _has_had_turns(self) -> bool:
        return self._turn_count >= MAX_TURNS_IN_COMMIT and self._turned_in is self._journal.committer.open

    def is_crowded(self, added_bytes: int = 0) -> bool:
        """Whether so much is uncommitted, with what is to be added, that messages are to be returned in turns."""
        return self._journal.committer.waiting_bytes + added_bytes >= MUCH_UNCOMMITTED_BYTES

    def in_epoch(self, act: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return an act that raises BrokenOffError if memory is dropped meanwhile."""
        return self._journal.epoch.once(act)

    def in_parts(self, work: parts.Parts) -> "asyncio.Task[None] | None":
        """Do work in parts, as `parts.begin` does; with much uncommitted, each in a turn."""
        return parts.begin(work, self.turns, self._engine.spawn, self.is_crowded)

    def _return(self, group: Group, held: Iterable[Sequence[CursorLease]], held_count: int, cause: str) -> parts.Parts:
        places = FrontPlaces(held_count) if held_count > MAX_RETURNED else None
        for some in [[*chain.from_iterable(held)]] if places is None else held:
            if count := returning.nack_all(some, cause, places=places):
                self.settled(group, size_of(some))
            yield RETURN_COST * count

    @contextmanager
    def many_leave(self) -> Iterator[None]:
        """Defer deliveries until the block exits, so that consumers about to leave do not get returned messages."""
        self._postponed = {}
        try:
            yield
        finally:
            postponed, self._postponed = self._postponed, None
            for group in postponed:
                self.dispatch(group)

    def changed(self, topic: Topic) -> None:
        """Apply the settings of a topic that order and limit deliveries, by key, rate and leases, to its groups."""
        for group in topic.groups.values():
            self.apply_flow(group)

    def apply_flow(self, group: Group) -> None:
        """Apply these settings of its topic to a group, and the rules of order for groups with members."""
        apply_to(group, self.clock, self.dispatch)

    def readable(self, topic: Topic) -> None:
        """Deliver messages to waiting consumers in all groups of a topic, including messages no longer held back.

        If consumers wait in a group that does not exist yet, the group is created.
        """
        self._room = MAX_DELIVERED
        for group in tuple(topic.groups.values()):
            if group.id is None and group.waiters:
                self._begin(group)
            if group.old_first is not None:
                group.old_first.look()
            if group.waiters:
                self._dispatch(group)
        self._cache.touch(topic)

    def dispatch(self, group: Group) -> None:
        """Deliver messages to the waiting consumers of a group, first come, first served.

        A consumer that still has room after a delivery becomes the last of the waiting consumers. If one iteration may
        not deliver all, the next one goes on.
        """
        self._room = MAX_DELIVERED
        self._dispatch(group)

    def _dispatch(self, group: Group) -> None:
        if self._postponed is not None:
            self._postponed[group] = None
            return
        while group.waiters:
            if self._room <= 0:
                self._dispatch_later(group)
                break
            consumer = next(iter(group.waiters))
            if self._memory.over_count and not consumer.may_take():
                self._set_aside(consumer)
                self._room -= 1
                continue
            leases = self._fill(consumer)
            if not leases:
                break
            if not consumer.room:
                del group.waiters[consumer]
                consumer.deliver(leases)
                continue
            group.waiters.move_to_end(consumer)
            consumer.deliver(leases)
            if group.membership is None:
                break  # there is nothing more for any consumer
        if group.waiters:
            if group.membership is not None:
                self._dispatch_to_members(group)
            if not group.is_postponed:
                self._load_ahead(group)
        self._room -= len(group.cursors) // POLLED_AS_LEASE

    def _dispatch_to_members(self, group: Group) -> None:
        """Deliver messages to all waiting members: if one member's partitions are empty, another's may not be."""
        for consumer in list(group.waiters):
            if self._room <= 0:
                self._dispatch_later(group)
                break
            if consumer not in group.waiters:
                continue
            if self._memory.over_count and not consumer.may_take():
                self._set_aside(consumer)
                continue
            if leases := self._fill(consumer):
                if not consumer.room:
                    del group.waiters[consumer]
                consumer.deliver(leases)
