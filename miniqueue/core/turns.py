"""Whose turn it is: keys take turns, one message each, as far as their rules let them.

                    ┌──────────── one message ◀───────────┐
    has one ─▶ listed, behind all others ─▶ its turn ─────┘ behind all others again, if there is more
       ▲          └ nothing to hand out ─▶ not listed
       ├── a lease ended          as many were leased as may be
       ├── what came back is due  it was in the way, or is not ordered
       └── its pace allows one    it was too fast

So a key with any number of messages lets every other key with one go before its next. Nothing is looked at twice in
vain: who is not listed is brought back by what it waits for.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import count
from math import inf

from miniqueue.core.key_queue import FREE, QUEUE_BYTES, KeyQueue, KeyRules, Returned
from miniqueue.core.pace import BURST_SECONDS


class Turns:
    """The keys of one partition, as one group has them.

    Args:
      rules: of every key.

    Attributes:
      queues: by key; those of which nothing waits nor is leased may be missing.
      due_limit: the first order of DELAYED that is not due.
      stop_seq: an ordered key goes no further, also with what came back; `is_held` while that is anywhere.
      now: seconds on a clock that only goes forward.
      index_bytes: what all this costs in memory, without payloads; who adds messages counts them here.
    """

    def __init__(self, rules: KeyRules) -> None:
        self.rules = rules
        self.queues: dict[bytes, KeyQueue] = {}
        self.due_limit = 0
        self.stop_seq: float = inf
        self.is_held = False
        self.now = 0.0
        self.index_bytes = 0
        self._listed: deque[KeyQueue] = deque()
        self._due: list[tuple[int, Returned]] = []
        self._paced: list[tuple[float, int, KeyQueue]] = []
        self._numbers = count()  # two keys may be due at the same time, and have no order

    def __bool__(self) -> bool:
        return bool(self._listed)

    def queue(self, key: bytes) -> KeyQueue:
        """Return the queue of a key, which is made if there is none."""
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = KeyQueue(key, self.rules if key else FREE)
            self.index_bytes += QUEUE_BYTES + len(key)
        return queue

    def enlist(self, queue: KeyQueue) -> None:
        """Give a key a turn if it has something to hand out and may."""
        rules = queue.rules
        if queue.is_listed or queue.leased_count >= rules.leases:
            return
        if queue.head(self) is None:
            self._rest(queue)
        elif rules.per_second and queue.next_at - BURST_SECONDS > self.now:
            self._pace(queue)
        else:
            queue.is_listed = True
            self._listed.append(queue)

    def first(self) -> tuple[KeyQueue, int | Returned] | None:
        """Return the key whose turn it is, with its next message; None when no key has one."""
        while self._listed:
            queue = self._listed[0]
            head = queue.head(self)
            if head is not None:
                return queue, head
            self._listed.popleft()
            queue.is_listed = False
            self._rest(queue)
        return None

    def lent(self, queue: KeyQueue) -> None:
        """Note that a message of a key was handed out, which was taken from its queue; its turn is over."""
        if per_second := queue.rules.per_second:
            queue.next_at = max(queue.next_at, self.now) + 1 / per_second
        if self._listed and self._listed[0] is queue:
            self._listed.popleft()
            queue.is_listed = False
            if queue.leased_count < queue.rules.leases:
                self.enlist(queue)

    def unspend(self, queue: KeyQueue) -> None:
        """Note that a message that was lent is given up, and handed out to nobody: it is none that makes a key fast."""
        if per_second := queue.rules.per_second:
            queue.next_at -= 1 / per_second
            self.enlist(queue)

    def wait(self, returned: Returned) -> None:
        """Bring a message that is not due when it is."""
        if not returned.is_timed:
            returned.is_timed = True
            heappush(self._due, (returned.order, returned))

    def wake(self) -> None:
        """Enlist the keys for which time has come."""
        due_limit, now = self.due_limit, self.now
        while self._due and self._due[0][0] < due_limit:
            _, returned = heappop(self._due)
            returned.is_timed = False
            if returned.is_gone:
                continue
            if not returned.queue.rules.is_ordered:  # else it stands there, and was in the way
                returned.queue = self.queue(returned.queue.key)
                returned.queue.add(returned)
            self.enlist(returned.queue)
        while self._paced and self._paced[0][0] <= now:
            queue = heappop(self._paced)[2]
            queue.is_paced = False
            self.enlist(queue)

    def cut(self, stop_seq: int) -> int:
        """Forget the messages of the log from `stop_seq` on; return how many those were."""
        cut_count = sum(queue.cut(stop_seq) for queue in self.queues.values())
        self._list_anew()
        return cut_count

    def hold(self, stop_seq: float) -> None:
        """Have ordered keys go no further than there from now on."""
        if stop_seq != self.stop_seq:
            self.stop_seq, self.is_held = stop_seq, stop_seq < inf
            self._list_anew()

    def _list_anew(self) -> None:
        """Give turns to those that have something to hand out, and forget those of which nothing is left."""
        listed, self._listed = self._listed, deque()
        for queue in listed:
            queue.is_listed = False
        for queue in [*listed, *self.queues.values()]:
            self.enlist(queue)

    @property
    def opens_at(self) -> float | None:
        """When the pace of the next key that was too fast allows one; None when none was."""
        return self._paced[0][0] if self._paced else None

    def some(self, max_count: int) -> list[Returned]:
        """Return messages whose turn comes soon and whose payloads are not in memory."""
        found: list[Returned] = []
        for queue in self._listed:
            head = queue.head(self)
            if isinstance(head, Returned) and head.record is None:
                found.append(head)
                if len(found) == max_count:
                    break
        return found

    def _rest(self, queue: KeyQueue) -> None:
        """Leave a key alone that has nothing to hand out now, and forget it if it may be."""
        if (returned := queue.first_returned()) is not None:
            if returned.seq < self.stop_seq:  # else it goes on when it is held back no more
                self.wait(returned)
        elif queue.is_empty and not queue.leased_count:
            if queue.rules.per_second and queue.next_at - BURST_SECONDS > self.now:
                self._pace(queue)
            elif self.queues.get(queue.key) is queue:
                del self.queues[queue.key]
                self.index_bytes -= QUEUE_BYTES + len(queue.key)

    def _pace(self, queue: KeyQueue) -> None:
        if not queue.is_paced:
            queue.is_paced = True
            heappush(self._paced, (queue.next_at - BURST_SECONDS, next(self._numbers), queue))
