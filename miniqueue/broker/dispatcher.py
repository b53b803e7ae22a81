"""Hands messages to the consumers that wait, and takes back what they return."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from miniqueue.broker.clock import Clock
from miniqueue.broker.group import Group, Waiter
from miniqueue.broker.journal import Journal
from miniqueue.broker.loader import Loader
from miniqueue.broker.topic import Topic
from miniqueue.core import returning
from miniqueue.core.holding import Held
from miniqueue.core.lease import Lease
from miniqueue.errors import InvalidDelayError

if TYPE_CHECKING:
    from miniqueue.broker.expiring import Expirer

MAX_TIME_MS = 1 << 62


class Dispatcher:
    """Serves consumers, first come, first served.

    Args:
      topics: by name; those that nobody needs any more are dropped.
      clock: tells when delayed messages are due.
      journal: commits what is settled.
      loader: brings messages into memory.

    Attributes:
      expirer: gives up what has expired; set before there is anything to hand out.
      begin_soon: makes a group that is read for the first time; set likewise.
    """

    def __init__(self, topics: dict[bytes, Topic], clock: Clock, journal: Journal, loader: Loader) -> None:
        self._topics = topics
        self.clock = clock
        self._journal = journal
        self._loader = loader
        self._horizon_ms = 0
        self._lines: dict[Group, None] = {}  # in which somebody waits, or has
        self._postponed: dict[Group, None] | None = None  # while many leave
        self.expirer: Expirer | None = None
        self.begin_soon: Callable[[Group], None]
        journal.settled = self._go_on

    @property
    def horizon_ms(self) -> int:
        """The time up to which delayed messages are due: that of the last tick. They are ready then."""
        return self._horizon_ms

    def tick(self) -> None:
        """Let the delayed messages through that are due by now."""
        self._horizon_ms = self.clock.now_ms()
        for group in list(self._lines):
            if group.waiters:
                self.dispatch(group)
            else:
                del self._lines[group]

    def serve(self, consumer: Waiter) -> None:
        """Give `consumer` what it has room for, at once or as soon as there is some."""
        group = consumer.group
        if (fault := group.topic.fault) is not None:
            raise fault
        leases = [] if group.waiters and consumer.member is None else self._fill(consumer)
        if consumer.room:
            group.waiters[consumer] = None
            self._lines[group] = None
            if group.id is None:
                self.begin_soon(group)
        if leases:
            consumer.deliver(leases)
        self._loader.load_ahead(group)

    def _fill(self, consumer: Waiter) -> list[Lease]:
        """Let `consumer` hold what there is, as far as it has room; return that."""
        leases: list[Lease] = []
        group = consumer.group
        while (room := consumer.room) and (taken := consumer.take(room, self._horizon_ms)) is not None:
            cursor, lease = taken
            if lease.attributes is None and not group.topic.ttl_ms:  # it cannot have expired
                consumer.hold(cursor, lease)
                leases.append(lease)
            elif live := self._live(group, taken, partial(consumer.take, room, self._horizon_ms)):
                for held in live:
                    consumer.hold(*held)
                leases += [lease for _, lease in live]
            else:
                break
        return leases

    def _live(self, group: Group, taken: Held, take: Callable[[], Held | None]) -> list[Held]:
        """Return what of `taken` has not expired, or if that is nothing, of what comes next."""
        assert self.expirer is not None  # from the start on
        return self.expirer.sift(group, taken, take)

    def settled(self, group: Group, *, is_returned: bool) -> None:
        """Commit a settle before long, and pass on what it returned."""
        self._journal.touch(group.topic)
        self._journal.committer.request_soon()
        if is_returned:
            if group.waiters or self._postponed is not None:
                self.dispatch(group)
        elif group.flow is not None:
            group.flow.settled()

    def left(self, group: Group, held: Sequence[Held] = (), cause: str = "disconnects") -> None:
        """Return what a consumer held when it left to the front, in its order, counted as `cause`."""
        if returning.nack_all(held, cause):
            self.settled(group, is_returned=True)
        topic = group.topic
        group.was_read = True
        topic.drop_idle(group)
        if topic.is_idle and self._topics.get(topic.name) is topic:  # else another has its name by now
            del self._topics[topic.name]

    def due_at_ms(self, delay_seconds: float) -> int:
        """Return when a message delayed from now on is due: never early, and never before the next tick.

        Raises InvalidDelayError when the delay is negative, not a number or too far away.
        """
        if not 0 <= delay_seconds < MAX_TIME_MS / 1000:
            raise InvalidDelayError
        begin_ms = self.clock.next_ms()
        self._horizon_ms = min(self._horizon_ms, begin_ms)  # the clock may have been set back since the last tick
        return max(begin_ms + math.ceil(delay_seconds * 1000), self._horizon_ms + 1)

    @contextmanager
    def many_leave(self) -> Iterator[None]:
        """Hand out what returns when the block is over: who is to leave next must not be given it."""
        self._postponed = {}
        try:
            yield
        finally:
            postponed, self._postponed = self._postponed, None
            for group in postponed:
                self.dispatch(group)

    def dispatch_all(self, topic: Topic) -> None:
        """Hand messages to those who wait in any group of a topic, also what is held back no more."""
        for group in tuple(topic.groups.values()):
            if group.old_first is not None:
                group.old_first.look()
            self.dispatch(group)

    def _go_on(self, topic: Topic) -> None:
        """Hand out what was held back by what is settled now."""
        for group in tuple(topic.groups.values()):
            if group.old_first is not None and group.old_first.look():
                self.dispatch(group)

    def dispatch(self, group: Group) -> None:
        """Hand messages to those who wait, first come, first served; who has room left waits behind the others."""
        if self._postponed is not None:
            self._postponed[group] = None
            return
        while group.waiters:
            consumer = next(iter(group.waiters))
            leases = self._fill(consumer)
            if not leases:
                break
            if consumer.room:
                group.waiters.move_to_end(consumer)
            else:
                del group.waiters[consumer]
            consumer.deliver(leases)
        if group.waiters:
            if group.membership is not None:
                self._dispatch_to_members(group)
            self._loader.load_ahead(group)

    def _dispatch_to_members(self, group: Group) -> None:
        """Hand messages to everybody who waits: what one has nothing of, another may have."""
        for consumer in list(group.waiters):
            if consumer in group.waiters and (leases := self._fill(consumer)):
                if not consumer.room:
                    del group.waiters[consumer]
                consumer.deliver(leases)
