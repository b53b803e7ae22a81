"""Turns among keys: each key in turn delivers one message, if its rules allow it.

                    ┌──────────── one message ◀───────────┐
    has one ─▶ listed, after all others ──▶ its turn ─────┘ after all others again, if it has more
       ▲          └ nothing to deliver ─▶ not listed
       ├── a lease ended             its limit of leased messages was reached
       ├── a returned message is due it blocked the key, or the key is not ordered
       └── its rate allows one       it was too fast

So after each message of a key, every other key with a message is next. Keys that are not listed are not polled: the
event that a key waits for lists it again.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import count
from math import inf

from miniqueue.core.keyed.key_queue import QUEUE_BYTES, UNLIMITED, KeyQueue, KeyRules, Returned
from miniqueue.core.keyed.pace import BURST_SECONDS


class KeyTurns:
    """The keys of one partition for one group.

    Args:
      rules: the rules of every key.

    Attributes:
      queues: the queues by key; a key without waiting and leased messages may have none.
      due_limit: the first order of DELAYED that is not due.
      stop_seq: ordered keys deliver no message from this one on, returned messages included.
      is_held: whether there is such a stop.
      now: the time in seconds on the monotonic clock.
      index_bytes: the memory use of queues and index entries, without payloads; callers that add messages add theirs.
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
        self._numbers = count()  # break ties in `_paced`: queues with the same time cannot be compared

    def __bool__(self) -> bool:
        return bool(self._listed)

    def queue(self, key: bytes) -> KeyQueue:
        """Return the queue of a key; create it if there is none."""
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = KeyQueue(key, self.rules if key else UNLIMITED)
            self.index_bytes += QUEUE_BYTES + len(key)
        return queue

    def enlist(self, queue: KeyQueue) -> None:
        """List a key if it has a message to deliver and its rules allow it."""
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
        """Return the queue whose turn it is, with its next message; None if no key has one."""
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
        """Count a delivery of a key, whose message has left its queue, and end its turn."""
        if per_second := queue.rules.per_second:
            queue.next_at = max(queue.next_at, self.now) + 1 / per_second
        if self._listed and self._listed[0] is queue:
            self._listed.popleft()
            queue.is_listed = False
            if queue.leased_count < queue.rules.leases:
                self.enlist(queue)

    def unspend(self, queue: KeyQueue) -> None:
        """Take back the rate of a message that was lent and then dropped, so no consumer received it."""
        if per_second := queue.rules.per_second:
            queue.next_at -= 1 / per_second
            self.enlist(queue)

    def wait(self, returned: Returned) -> None:
        """Set a timer for a returned message that is not due."""
        if not returned.is_timed:
            returned.is_timed = True
            heappush(self._due, (returned.order, returned))

    def wake(self) -> None:
        """List the keys whose timers have expired."""
        due_limit, now = self.due_limit, self.now
        while self._due and self._due[0][0] < due_limit:
            _, returned = heappop(self._due)
            returned.is_timed = False
            if returned.is_gone:
                continue
            if not returned.queue.rules.is_ordered:  # an ordered queue contained it all the time
                returned.queue = self.queue(returned.queue.key)
                returned.queue.add(returned)
            self.enlist(returned.queue)
        while self._paced and self._paced[0][0] <= now:
            queue = heappop(self._paced)[2]
            queue.is_paced = False
            self.enlist(queue)

    def cut(self, stop_seq: int) -> int:
        """Forget the messages of the log from `stop_seq` on; return their number."""
        cut_count = sum(queue.cut(stop_seq) for queue in self.queues.values())
        self._relist()
        return cut_count

    def hold(self, stop_seq: float) -> None:
        """Stop ordered keys before `stop_seq`; infinity removes the stop."""
        if stop_seq != self.stop_seq:
            self.stop_seq, self.is_held = stop_seq, stop_seq < inf
            self._relist()

    def _relist(self) -> None:
        """List the keys that have a message to deliver, and forget the empty ones."""
        listed, self._listed = self._listed, deque()
        for queue in listed:
            queue.is_listed = False
        for queue in [*listed, *self.queues.values()]:
            self.enlist(queue)

    @property
    def opens_at(self) -> float | None:
        """The earliest time at which the rate of a key allows a delivery again; None if no key waits for that."""
        return self._paced[0][0] if self._paced else None

    def some(self, max_count: int) -> list[Returned]:
        """Return messages whose turns come soon and whose payloads are not in memory."""
        lacking: list[Returned] = []
        for queue in self._listed:
            head = queue.head(self)
            if isinstance(head, Returned) and head.record is None:
                lacking.append(head)
                if len(lacking) == max_count:
                    break
        return lacking

    def _rest(self, queue: KeyQueue) -> None:
        """Set the timer of a key that has nothing to deliver now, or forget it if it is empty."""
        if (returned := queue.first_returned()) is not None:
            if returned.seq < self.stop_seq:  # otherwise `hold` lists it again
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
