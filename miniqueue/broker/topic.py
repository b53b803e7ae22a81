"""A topic as the broker holds it: its partitions, and the consumers that wait."""

import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from miniqueue.core.cursor import GroupCursor
from miniqueue.core.cursor_state import CursorState
from miniqueue.core.lease import Lease
from miniqueue.core.lease_book import LeaseBook
from miniqueue.core.partition import DEFAULT_GROUP, Partition
from miniqueue.core.topic_settings import DEFAULT_SETTINGS
from miniqueue.errors import MiniqueueError

if TYPE_CHECKING:
    from miniqueue.broker.watch import Pulse


class Waiter(Protocol):
    """Somebody in a topic's line, who has `room` for so many messages."""

    topic: "Topic"
    room: int

    def hold(self, cursor: GroupCursor, lease: Lease) -> None:
        """Take over a lease; there may be less room after it."""
        ...

    def deliver(self, leases: list[Lease], /) -> None:
        """Hear what was taken over; leave the line if that is all."""
        ...

    def fail(self, error: MiniqueueError, /) -> None:
        """Hear that the topic cannot be read; the line is left already."""
        ...


@dataclass(frozen=True)
class TopicStats:
    """How much a topic holds; all in messages, but `consumers` and `waiting`, which count consumers, and `size_bytes`.

    `size_bytes` are those of the payloads of messages that are ready, leased or delayed.
    """

    published: int
    acknowledged: int
    dropped: int
    moved: int
    ready: int
    leased: int
    delayed: int
    size_bytes: int
    consumers: int
    waiting: int


class Topic:
    """A named topic.

    `id` is None until the first publish, and again after the topic was deleted: consumers may wait on a topic
    that does not exist yet, and go on waiting when it is deleted. `fault` is what makes it unreadable, if anything.
    `partitions` are found by their numbers; 0 is that of plain messages, and always there.
    `cursors` are those of the default group, one for each partition. `book` has the leases that belong to no
    connection, if there are any. `pulse` times hand-outs, where somebody watches.
    """

    __slots__ = (
        "book",
        "consumer_count",
        "cursors",
        "fault",
        "id",
        "is_loading",
        "is_paused_in",
        "is_paused_out",
        "max_bytes",
        "max_messages",
        "name",
        "partitions",
        "pulse",
        "settings",
        "waiters",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        self.consumer_count = 0
        self.max_messages = self.max_bytes = sys.maxsize
        self.pulse: Pulse | None = None
        self.partitions: dict[int, Partition] = {}
        self.cursors: list[GroupCursor] = []
        self.clear()

    def clear(self) -> None:
        """Become a topic that does not exist: end every lease, forget every message, keep who waits."""
        for cursor in self.cursors:
            cursor.revoke_all()
        self.id: int | None = None
        self.book: LeaseBook | None = None
        self.fault: MiniqueueError | None = None
        self.settings = DEFAULT_SETTINGS
        self.is_loading = self.is_paused_in = self.is_paused_out = False
        self._replace({0: Partition(0, {DEFAULT_GROUP: GroupCursor(CursorState(), 0, {}, is_new=True)})})

    def fill(self, topic_id: int, partitions: dict[int, Partition]) -> None:
        """Become the topic that a store holds, after `clear`; keep who waits."""
        self.id = topic_id
        self._replace(partitions)

    def _replace(self, partitions: dict[int, Partition]) -> None:
        """Count receipts on: one of a lease that has ended must not name a message that is handed out later."""
        next_receipt = max((cursor.next_receipt for cursor in self.cursors), default=1)
        self.partitions = partitions
        self.cursors = [partition.cursors[DEFAULT_GROUP] for partition in partitions.values()]
        for cursor in self.cursors:
            cursor.next_receipt = next_receipt

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost when this object is dropped."""
        return self.id is None and not self.consumer_count

    @property
    def size_bytes(self) -> int:
        """Roughly what the loaded messages cost in memory."""
        return sum(cursor.size_bytes for cursor in self.cursors)

    @property
    def consumed_bytes(self) -> int:
        """Roughly what has been deleted on disk since space was last given back."""
        return sum(partition.consumed_bytes for partition in self.partitions.values())

    def held(self) -> tuple[int, int]:
        """Count messages that are not acknowledged, and the bytes of their payloads; also what is not yet committed."""
        partition, cursor = self.partitions[0], self.cursors[0]
        return (
            partition.next_seq - cursor.acked_count - cursor.dropped_count,
            partition.log_bytes - cursor.gone_bytes,
        )

    @property
    def uncommitted_bytes(self) -> int:
        """Bytes of the payloads that the next commit adds."""
        return sum(partition.log_bytes for partition in self.partitions.values()) - sum(
            c.tail_bytes for c in self.cursors
        )

    def waiting(self) -> tuple[int, int]:
        """Count messages that are committed and that nobody holds, and the bytes of their payloads."""
        cursors = self.cursors
        return (
            sum(cursor.depth - cursor.leased_count for cursor in cursors),
            sum(cursor.tail_bytes - cursor.gone_bytes - cursor.leased_bytes for cursor in cursors),
        )

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of at most `max_count` messages for the default group; none while that is paused."""
        if self.is_paused_out:
            return None
        for cursor in self.cursors:
            lease = cursor.take(max_count, horizon_ms)
            if lease is not None:
                if (pulse := self.pulse) is not None and pulse.wanted:
                    pulse.handed_out(lease)
                return cursor, lease
        return None

    def evict(self) -> None:
        """Give memory back."""
        for cursor in self.cursors:
            cursor.evict()

    def stats(self) -> TopicStats:
        """Count what there is."""
        cursors = self.cursors
        depth, leased = sum(c.depth for c in cursors), sum(c.leased_count for c in cursors)
        delayed = sum(c.waiting_delayed_count for c in cursors)
        return TopicStats(
            published=sum(c.tail_seq for c in cursors),
            acknowledged=sum(c.acked_count for c in cursors),
            dropped=sum(c.dropped_count - c.moved_count for c in cursors),
            moved=sum(c.moved_count for c in cursors),
            ready=depth - leased - delayed,
            leased=leased,
            delayed=delayed,
            size_bytes=sum(c.tail_bytes - c.gone_bytes for c in cursors),
            consumers=self.consumer_count,
            waiting=len(self.waiters),
        )
