"""The outbox of a shard: its transfers are stored in the commit in which the messages leave their topic.

    put ─▶ next commit: OUTBOX, SENT ─▶ durable ─▶ parcel ─▶ … the other shard has them, durably … ─▶ arrived
                                                     ▲                                                    │
                                                     └──── sent again, if that is not known               └▶ next commit

Transfers to one topic are sent in the order of their numbers. A transfer is sent only once it is durable: otherwise a
crash could undo that the message has left its topic, and it would be in both.

The numbers follow the clock, so that a store that is restored from a backup does not use those again that the other
shards have received since the backup.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from miniqueue.broker.commit.journal import Commit, Journal
from miniqueue.broker.model.limits import Room
from miniqueue.broker.outbox.pause import Pause
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.notices import NoticeKind
from miniqueue.broker.stored.opening import StoreContent
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.log.transfer import MAX_PARCEL_BYTES, MAX_PARCEL_COUNT, Parcel, Transfer
from miniqueue.core.message.parts import whole_of
from miniqueue.errors import LimitReachedError
from miniqueue.storage.format import transfers, values

#: Maximum number and size of the transfers in the outbox, to all topics; the last that are added may exceed them.
MAX_COUNT = 10_000
MAX_BYTES = 8 << 20
#: The part of both that transfers to one topic may have, so that a full topic does not use up the outbox.
TOPIC_PART = 4
#: The memory that a transfer costs in addition to its content, about.
TRANSFER_BYTES = 500


#: Lane, position, sequence number, payload, and attributes of a message, as in `Transfer`.
Leaving = tuple[int, bytes, int, bytes, bytes]


class _Waiting(NamedTuple):
    """A transfer that has not arrived."""

    topic: bytes
    shard: int
    created_at_ms: int
    value: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.value) + TRANSFER_BYTES


class Outbox:
    """The transfers of a shard to others.

    Args:
      journal: commits them.
      clock: numbers them.
      shard_of: returns the number of the shard with a topic.

    Attributes:
      on_ready: called with the number of a shard when transfers to it can be sent.
      size_bytes: the memory of all transfers, about.
      refusals: why topics refuse what waits for them, by topic.
      pause: while it is on, no transfer is sent, and none is added here.
    """

    def __init__(self, journal: Journal, clock: Clock, shard_of: Callable[[bytes], int]) -> None:
        self._journal = journal
        self._clock = clock
        self._shard_of = shard_of
        self.on_ready: Callable[[int], None] = lambda _shard: None
        self._by_shard: dict[int, dict[int, _Waiting]] = {}  # each by its number, ascending
        self._counts: Counter[bytes] = Counter()  # transfers by topic
        self._sizes: Counter[bytes] = Counter()
        self.size_bytes = 0
        self.refusals: dict[bytes, str] = {}
        self._failures: dict[int, str] = {}  # why nothing can be sent to a shard
        self.pause = Pause(self._report_ready)
        self._last_number = self._durable_number = 0
        self._uncommitted: deque[tuple[Commit, int]] = deque()  # each commit has the highest number in it

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def shards(self) -> list[int]:
        """The shards to which there are transfers."""
        return [shard for shard, waiting in self._by_shard.items() if waiting]

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest transfer has waited; 0 if there is none."""
        oldest = min(
            (next(iter(each.values())).created_at_ms for each in self._by_shard.values() if each), default=None
        )
        return 0.0 if oldest is None else max(0.0, (self._clock.now_ms() - oldest) / 1000)

    def waiting_for(self, topic: bytes) -> int:
        """Return the number of transfers to a topic."""
        return self._counts[topic]

    @property
    def reason(self) -> str:
        """Why the oldest transfers wait, as far as that is known; "" if everything is on its way."""
        of_topics = (f"{topic.decode()}: {reason}" for topic, reason in self.refusals.items())
        of_shards = (reason for shard, reason in self._failures.items() if self._by_shard.get(shard))
        return next(of_topics, next(of_shards, ""))

    # --- for those who move messages --------------------------------------------------------------------------

    def room(self, topic: bytes) -> Room:
        """Return the room for transfers to a topic; the last of them may exceed the size."""
        count = min(MAX_COUNT - len(self), MAX_COUNT // TOPIC_PART - self._counts[topic])
        size_bytes = min(MAX_BYTES - self.size_bytes, MAX_BYTES // TOPIC_PART - self._sizes[topic])
        return Room(max(0, count), max(0, size_bytes)) if count > 0 and size_bytes > 0 else Room(0, 0)

    def fitting_count(self, topic: bytes, sizes_bytes: Iterable[int]) -> int:
        """Return how many of the messages with these sizes, from the first on, there is room for."""
        count, room_bytes = self.room(topic)
        fitting_count = 0
        for size_bytes in sizes_bytes:
            if fitting_count == count or room_bytes <= 0:
                break
            room_bytes -= size_bytes + TRANSFER_BYTES
            fitting_count += 1
        return fitting_count

    def admit(self, topic: bytes) -> None:
        """Raise LimitReachedError unless there is room for transfers to a topic: for those of a lease, maybe the last.

        Messages that were leased together move together, so those may exceed the room.
        """
        if not self.room(topic).messages:
            count, name = self._counts[topic], topic.decode()
            raise LimitReachedError(
                f"{count} messages wait for {name}, which is in another shard, and {len(self)} for all such topics; "
                "more are moved when these have arrived"
            )

    def put(self, topic: bytes, kind: Kind, messages: Iterable[Leaving], owner: str, *, is_home: bool = False) -> None:
        """Add transfers with the next commit, for which there is room; their messages leave their topics with it.

        The arguments are as the attributes of `Transfer`.
        """
        batch: dict[bytes, bytes | None] = {}
        now_ms = self._clock.now_ms()
        for message in messages:
            self._last_number = number = max(self._last_number + 1, now_ms * 1000)
            transfer = Transfer(topic, kind, is_home, owner, now_ms, *message)
            value = batch[transfers.outbox(number)] = transfers.encode_transfer(transfer)
            self._keep(number, transfer, value)
        if not batch:
            return
        batch[transfers.SENT] = values.encode_number(self._last_number)
        self._journal.change(batch)
        self._journal.committer.request_soon()
        commit = self._journal.committer.open
        if self._uncommitted and self._uncommitted[-1][0] is commit:
            self._uncommitted.pop()
        else:
            commit.add_listener(self._committed)
        self._uncommitted.append((commit, self._last_number))

    # --- for those who carry them -----------------------------------------------------------------------------

    def parcel(self, shard: int, without: Collection[bytes] = ()) -> Parcel:
        """Return the next transfers to a shard, none to the topics in `without`; it is empty if none can be sent."""
        if self.pause.is_on:
            return Parcel([], [])
        held: list[int] = []
        sent: list[tuple[int, bytes]] = []
        size_bytes, held_count = 0, 0  # those that are held before the last one that is sent
        for number, waiting in self._by_shard.get(shard, {}).items():
            if number > self._durable_number or len(sent) == MAX_PARCEL_COUNT or size_bytes >= MAX_PARCEL_BYTES:
                break
            if waiting.topic in without:
                held.append(number)
                continue
            sent.append((number, waiting.value))
            size_bytes += len(waiting.value)
            held_count = len(held)
        return Parcel(held[:held_count], sent)

    def arrived(self, shard: int, numbers: Iterable[int]) -> None:
        """Forget transfers that the other shard has durably; the next commit deletes them."""
        of_shard = self._by_shard.get(shard, {})
        batch: dict[bytes, bytes | None] = {}
        for number in numbers:
            waiting = of_shard.pop(number, None)
            if waiting is not None:
                self._count(waiting, -1)
                batch[transfers.outbox(number)] = None
        if batch:
            self._journal.change(batch)
            self._journal.committer.request_soon()

    def refused(self, topic: bytes, reason: str) -> bool:
        """Note that a topic refuses what waits for it; return whether that has begun now, and report it then.

        Of a spread topic, the first part that refuses is reported.
        """
        if not self._counts[topic]:
            return False
        is_new, whole = topic not in self.refusals, whole_of(topic)
        is_first = whole not in map(whole_of, self.refusals)
        self.refusals[topic] = reason
        if is_first:
            count = sum(count for each, count in self._counts.items() if whole_of(each) == whole)
            self._journal.notices.report(NoticeKind.TRANSFER_REFUSED, whole, count=count, reason=reason)
        return is_new

    def failed(self, shard: int, reason: str) -> bool:
        """Note that nothing can be sent to a shard, or with the reason "" that it can; return whether that is new."""
        before = self._failures.pop(shard, "")
        if reason:
            self._failures[shard] = reason
        return bool(before) != bool(reason)

    # --- the store ---------------------------------------------------------------------------------------------

    def restored(self, content: StoreContent) -> None:
        """Take over the content of the store, at startup and after a fault."""
        self._by_shard.clear()
        self._counts.clear()
        self._sizes.clear()
        self.size_bytes = 0
        self.refusals.clear()
        for key, value in content.transfers:
            if key == transfers.SENT:
                self._last_number = self._durable_number = values.decode_number(value)
            elif key < transfers.SENT:
                self._keep(transfers.number_of(key), transfers.decode_transfer(value), value)
        self._report_ready()

    def _keep(self, number: int, transfer: Transfer, value: bytes) -> None:
        shard = self._shard_of(transfer.topic)
        waiting = _Waiting(transfer.topic, shard, transfer.created_at_ms, value)
        self._by_shard.setdefault(shard, {})[number] = waiting
        self._count(waiting, 1)

    def _count(self, waiting: _Waiting, sign: int) -> None:
        topic = waiting.topic
        self._counts[topic] += sign
        self._sizes[topic] += sign * waiting.size_bytes
        self.size_bytes += sign * waiting.size_bytes
        if not self._counts[topic]:
            del self._counts[topic], self._sizes[topic]
            self.refusals.pop(topic, None)

    def _committed(self) -> None:
        """Send what is durable now: commits are done in the order in which they began."""
        commit, number = self._uncommitted.popleft()
        if commit.error is None:
            self._durable_number = number
            self._report_ready()

    def _report_ready(self) -> None:
        for shard in self.shards:
            self.on_ready(shard)
