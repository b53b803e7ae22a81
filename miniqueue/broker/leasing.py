"""Leases that belong to no connection: messages received once, settled by receipt from anywhere, and back in time.

    receive ─▶ in line ─▶ book of leases ─settle by receipt─▶ done, or back in the topic
                              │ extend ─▶ a later deadline
                              └ tick: the deadline is over ─▶ front of the topic, counted as a timeout

A receipt is the book's random prefix and a number. A topic has a new book after every restart, whenever it was deleted
or read anew, and when the last lease has ended: so a receipt never names another message. Leases are not stored.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from operator import or_

from miniqueue.broker.admission import Admission
from miniqueue.broker.dead_letters import DeadLetters
from miniqueue.broker.dispatcher import Dispatcher
from miniqueue.broker.group import Group
from miniqueue.broker.members import Members
from miniqueue.broker.receiving import Received, Receiving
from miniqueue.broker.topic import Topic
from miniqueue.core import returning
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.holding import Held, settle_each
from miniqueue.core.lease_book import LeaseBook
from miniqueue.core.names import check_topic
from miniqueue.core.receipts import parse_prefixed, which
from miniqueue.core.receiving import ReceiveOptions, check_lease
from miniqueue.core.tracing import Kind
from miniqueue.errors import DrainingError, InvalidPrefetchError, LimitReachedError, MiniqueueError, RequestError

#: What is leased stays in memory; beyond so much, all topics together, nothing more is handed out.
MAX_LEASED_BYTES = 1 << 30
#: So many messages return in one turn of the loop when their leases are over, the others in the next ones.
MAX_EXPIRED_IN_TURN = 1_000
#: Of a reason, for which a message is rejected.
MAX_REASON_BYTES = 1024

_Settle = Callable[[list[Held]], object]


class Leasing:
    """Hands out messages for a time.

    Args:
      topics: by name.
      members: knows the groups of topics, and who is a member.
      admission: says when nothing can be changed.
      dispatcher: serves those who wait, and has the clock.
      lease_seconds: how long a lease is for who does not say.
      max_count: messages that may be asked for at once.
      dead_letters: takes what is rejected.
    """

    def __init__(
        self,
        topics: dict[bytes, Topic],
        members: Members,
        admission: Admission,
        dispatcher: Dispatcher,
        *,
        lease_seconds: float,
        max_count: int,
        dead_letters: DeadLetters,
    ) -> None:
        self.dispatcher = dispatcher
        self.lease_seconds = check_lease(lease_seconds)
        self._topics = topics
        self._members = members
        self._admission = admission
        self._max_count = max_count
        self._dead_letters = dead_letters
        self._leased: dict[Group, None] = {}  # those with a book
        self._most_leased_bytes = 0  # as of the last count, and with all that was handed out since

    def receive(
        self,
        name: bytes,
        options: ReceiveOptions,
        answer: Callable[[Received], None],
        fail: Callable[[MiniqueueError], None],
    ) -> Receiving:
        """Ask for messages of a topic, which need not exist; `answer` or `fail` is called once, maybe at once.

        Raises:
          InvalidTopicError, InvalidPrefetchError, DrainingError: it was not asked.
          LimitReachedError: too much is leased.
          StorageError: the topic cannot be read.
          InvalidGroupError, InvalidMemberError, MembersOnlyError, NoMembersError: as `Members.enter`.
        """
        if self._admission.refusal is DrainingError:
            raise DrainingError
        if options.max_count > self._max_count:
            raise InvalidPrefetchError(self._max_count)
        if not options.is_acked:
            self._check_memory()
        if (topic := self._topics.get(name)) is not None and topic.fault is not None:
            raise topic.fault
        group, member = self._members.enter(name, options.group, options.member)
        receiving = Receiving(self, group, options, answer, fail, member)
        receiving.start()
        return receiving

    def _check_memory(self) -> None:
        if self._most_leased_bytes >= MAX_LEASED_BYTES:
            self._most_leased_bytes = sum(group.book.size_bytes for group in self._leased if group.book is not None)
        if self._most_leased_bytes >= MAX_LEASED_BYTES:
            raise LimitReachedError(f"messages of {MAX_LEASED_BYTES >> 20} MiB are leased, which fill the memory")

    def keep(self, group: Group, options: ReceiveOptions, taken: list[Held]) -> Received:
        """Lease what was taken, or acknowledge it; return it as it is handed out."""
        leases = [(cursor.partition, lease) for cursor, lease in taken]
        if options.is_acked:
            for cursor, lease in taken:
                cursor.ack(lease)
            self.dispatcher.settled(group, is_returned=False)
            return Received(b"", leases)
        book = group.book
        if book is None:
            book = group.book = LeaseBook(secrets.token_hex(8).encode() + b"-")
            self._leased[group] = None
        deadline = self._deadline(options.lease_seconds or group.topic.settings.lease_seconds or self.lease_seconds)
        for cursor, lease in taken:
            book.add(cursor, lease, deadline)
            self._most_leased_bytes += lease.size_bytes
        return Received(book.prefix, leases)

    # --- settling ---------------------------------------------------------------------------------------------

    def ack(self, name: bytes, receipts: Sequence[bytes]) -> list[bool]:
        """Settle messages: they are done.

        Returns, as those below, for each of `receipts` whether it named a message that was leased; the others had no
        effect. There may be any receipts.

        Raises (this and those below):
          InvalidTopicError: nothing can have this name.
          UnavailableError: nothing can be settled now.
        """
        return self._settle(name, receipts, partial(settle_each, GroupCursor.ack), is_returned=False)

    def nack(self, name: bytes, receipts: Sequence[bytes]) -> list[bool]:
        """Return messages to the front of the topic, in the order of `receipts`."""
        return self._settle(name, receipts, returning.nack_all)

    def back(self, name: bytes, receipts: Sequence[bytes]) -> list[bool]:
        """Return messages to the back of the topic."""
        return self._settle(name, receipts, partial(settle_each, returning.back))

    def dack(self, name: bytes, receipts: Sequence[bytes], delay_seconds: float) -> list[bool]:
        """Return messages to the front after a time; raises InvalidDelayError too."""
        due_at_ms = self.dispatcher.due_at_ms(delay_seconds)
        dack = partial(returning.dack, due_at_ms=due_at_ms)
        return self._settle(name, receipts, partial(settle_each, dack))

    def reject(self, name: bytes, receipts: Sequence[bytes], reason: bytes) -> list[bool]:
        """Give messages up for a `reason`; raises RequestError too, when it is over `MAX_REASON_BYTES`."""
        if len(reason) > MAX_REASON_BYTES:
            raise RequestError(f"a reason has at most {MAX_REASON_BYTES} bytes")

        def reject(held: list[Held]) -> None:
            self._dead_letters.reject(self._topics[name], held, reason)

        return self._settle(name, receipts, reject)

    def extend(self, name: bytes, receipts: Sequence[bytes], lease_seconds: float) -> list[bool]:
        """Have leases end `lease_seconds` from now, whatever was left of them; raises InvalidDelayError too."""
        deadline = self._deadline(check_lease(lease_seconds))
        found = [False] * len(receipts)
        for group, book in self._books(name):
            numbers = parse_prefixed(receipts, book.prefix)
            extended = book.extend(numbers, deadline)
            for cursor, lease in extended if group.topic.trace is not None else ():
                if cursor.trace is not None:
                    cursor.trace.note(Kind.EXTENDED, lease)
            _see(group, extended)
            found = _either(found, _results(numbers, extended))
        return found

    def attributes_of(self, name: bytes, receipt: bytes) -> bytes | None:
        """Return the attributes of a message, encoded; None when the receipt belongs to none that is leased."""
        found = (book.attributes_of(*parse_prefixed([receipt], book.prefix)) for _, book in self._books(name))
        return next((attributes for attributes in found if attributes is not None), None)

    def _settle(
        self,
        name: bytes,
        receipts: Sequence[bytes],
        settle: _Settle,
        *,
        is_returned: bool = True,
    ) -> list[bool]:
        found = [False] * len(receipts)
        for group, book in self._books(name):
            numbers = parse_prefixed(receipts, book.prefix)
            held = book.take(numbers)
            if held:
                settle(held)
                self.dispatcher.settled(group, is_returned=is_returned)
                _see(group, held)
            found = _either(found, _results(numbers, held))
        return found

    def _books(self, name: bytes) -> list[tuple[Group, LeaseBook]]:
        """Return the books of the groups of a topic; a receipt says by its prefix which it belongs to."""
        self._admission.check_change()
        topic = self._topics.get(name)
        if topic is None:
            check_topic(name)
            return []
        return [(group, group.book) for group in topic.groups.values() if group.book is not None]

    # --- time -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Return what was leased for a time that is over."""
        now = self.dispatcher.clock.monotonic()
        room = MAX_EXPIRED_IN_TURN
        for group in list(self._leased):
            room -= self._expire(group, now, room)
            if room <= 0:
                asyncio.get_running_loop().call_soon(self.tick)
                return

    def _expire(self, group: Group, now: float, room: int) -> int:
        book = group.book
        if book is None or not book.count:
            group.book = None
            del self._leased[group]
            return 0
        expired = book.expire(now, room)
        if expired:
            returning.nack_all(expired, "timeouts")
            self.dispatcher.settled(group, is_returned=True)
        return sum(lease.count for _, lease in expired)

    def _deadline(self, seconds: float) -> float:
        return self.dispatcher.clock.monotonic() + seconds


def _see(group: Group, held: list[Held]) -> None:
    """Note that members are there whose messages were settled."""
    if group.membership is not None:
        for cursor in {id(cursor): cursor for cursor, _ in held}.values():
            group.membership.saw(cursor, group.topic.settings.session_seconds)


def _either(found: list[bool], others: list[bool]) -> list[bool]:
    return list(map(or_, found, others)) if any(found) else others


def _results(numbers: Sequence[int], settled: list[Held]) -> list[bool]:
    if sum(lease.count for _, lease in settled) == len(numbers):
        return [True] * len(numbers)
    return which(list(numbers), [(lease.receipt, lease.count) for _, lease in settled])
