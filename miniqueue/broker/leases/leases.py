"""Leases that belong to no connection: any connection can settle a message by its receipt before the lease expires.

    receive ─▶ waiters of the group ─▶ book of leases ─ settle by receipt ─▶ acknowledged, or returned to the topic
                                           │ extend ─▶ a later deadline
                                           └ tick: the deadline has passed ─▶ front of the topic, counted as a timeout

A receipt consists of the book's random prefix and a number. A group gets a new book after every restart, after its
topic was deleted or reloaded, and after its last lease has ended. So a receipt never names another message. Leases are
not stored.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import aclosing
from operator import itemgetter, or_
from typing import Final, NamedTuple

from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.consume.dispatcher import (
    MAX_RETURNED,
    MUCH_UNCOMMITTED_BYTES,
    RETURN_COST,
    Dispatcher,
)
from miniqueue.broker.consume.members import Members
from miniqueue.broker.dead_letters import dead_letters
from miniqueue.broker.engine.engine import Engine
from miniqueue.broker.leases import settling
from miniqueue.broker.leases.listing import MAX_COUNT, HeldMessage, LeaseHolder, described, held_messages, holders_of
from miniqueue.broker.leases.receive import ReceiveRequest, ReceiveResult
from miniqueue.broker.leases.settling import MAX_LARGE_RETURNED, MAX_WITH_FEW_LEASES, Settling
from miniqueue.broker.model.topic import Group, Topic
from miniqueue.broker.model.views import group_named
from miniqueue.broker.runtime.parts import Parts
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.holding import CursorLease, size_of
from miniqueue.core.cursor.lease_book import LeaseBook, Payer
from miniqueue.core.cursor.receipts import parse_prefixed, which
from miniqueue.core.cursor.recording import Kind
from miniqueue.core.cursor.returning import FrontPlaces
from miniqueue.core.message.names import check_member, check_topic
from miniqueue.core.options.consume import ReceiveOptions, check_lease
from miniqueue.core.options.settle import PLAIN_NACK, NackOptions, check_reason
from miniqueue.errors import DrainingError, InvalidPrefetchError, MiniqueueError
from miniqueue.errors.requests import UnknownTopicError

#: What it costs to look whether leases of a group have expired, as in `broker.runtime.parts`.
LOOK_COST: Final = 1


class Found(NamedTuple):
    """Which receipts name leased messages.

    Attributes:
      are_leased: whether each receipt names a leased message; incomplete if `lease_count` exceeds the maximum.
      lease_count: number of leases that were inspected.
      cut_count: number of these leases that also have other messages.
    """

    are_leased: list[bool]
    lease_count: int
    cut_count: int


class Leases:
    """Leases messages for a limited time, and settles them by receipt.

    Args:
      engine: provides the topics, and reports when no change is possible.
      members: finds the group of a request, and its member.
      dispatcher: serves waiting requests, and provides the clock.
      lease_seconds: the duration of a lease if neither the request nor the topic sets one.
      max_count: maximum number of messages in one request.
    """

    def __init__(
        self, engine: Engine, members: Members, dispatcher: Dispatcher, *, lease_seconds: float, max_count: int
    ) -> None:
        self.dispatcher = dispatcher
        self.lease_seconds = check_lease(lease_seconds)
        self._engine = engine
        self._topics = engine.topics.by_name
        self._members = members
        self._admission = engine.journal.admission
        self._max_count = max_count
        self._leased: dict[Group, None] = {}  # the groups that have a book
        self._returning: asyncio.Task[None] | None = None  # returns the messages of expired leases
        self._memory = engine.memory

    def receive(
        self,
        name: bytes,
        options: ReceiveOptions,
        answer: Callable[[ReceiveResult], None],
        fail: Callable[[MiniqueueError], None],
        *,
        kind: type[ReceiveRequest] = ReceiveRequest,
    ) -> ReceiveRequest:
        """Request messages of a topic, which need not exist; `answer` or `fail` is called once, maybe immediately.

        Raises:
          InvalidTopicError, InvalidPrefetchError, DrainingError: the request was not made.
          MemoryLimitError: the client uses all the memory it may, for example for leased messages.
          StorageError: the topic cannot be read.
          InvalidGroupError, InvalidMemberError, MembersOnlyError, NoMembersError: see `Members.enter`.
        """
        if self._admission.refusal is DrainingError:
            raise DrainingError
        if options.max_count > self._max_count:
            raise InvalidPrefetchError(self._max_count)
        is_tight = self._memory.over_count
        if is_tight and not options.is_acked:
            self._memory.check()
        if (topic := self._topics.get(name)) is not None and topic.fault is not None:
            raise topic.fault
        group, member = self._members.enter(name, options.group, options.member)
        receiving = kind(self.dispatcher, group, options, answer, fail, member, keep=self.keep)
        if is_tight and options.is_acked:
            receiving.may_take()
        receiving.start()
        return receiving

    def keep(
        self, group: Group, options: ReceiveOptions, taken: list[CursorLease], payer: Payer | None
    ) -> ReceiveResult:
        """Lease messages that were taken, or acknowledge them if the options say so; return the result to deliver.

        `payer` pays for the memory of the leases.
        """
        leases = [(cursor.partition, lease) for cursor, lease in taken]
        if options.is_acked:
            for cursor, lease in taken:
                cursor.ack(lease)
            self.dispatcher.settled(group)
            return ReceiveResult(b"", leases)
        book = group.book
        if book is None:
            book = group.book = LeaseBook(secrets.token_hex(8).encode() + b"-")
            self._leased[group] = None
        deadline = self._deadline(options.lease_seconds or group.topic.settings.lease_seconds or self.lease_seconds)
        for cursor, lease in taken:
            book.add(cursor, lease, deadline, payer)
        return ReceiveResult(book.prefix, leases)

    # --- settling ---------------------------------------------------------------------------------------------

    def ack(self, name: bytes, receipts: Sequence[bytes]) -> list[bool]:
        """Acknowledge messages.

        This method and those below return, for each receipt, whether it named a leased message. Other receipts have
        no effect; they can be any bytes.

        Raises (this method and those below):
          InvalidTopicError: no topic can have this name.
          UnavailableError: no message can be settled now.
        """
        return self.settle(name, receipts, settling.ACK)

    def nack(self, name: bytes, receipts: Sequence[bytes], options: NackOptions = PLAIN_NACK) -> list[bool]:
        """Return messages to the front of the topic, in the order of `receipts`; also raises InvalidDelayError."""
        return self.settle(name, receipts, self.nacking(options))

    def back(self, name: bytes, receipts: Sequence[bytes]) -> list[bool]:
        """Return messages to the back of the topic."""
        return self.settle(name, receipts, settling.BACK)

    def dack(self, name: bytes, receipts: Sequence[bytes], delay_seconds: float) -> list[bool]:
        """Return messages to the front of the topic after a delay; also raises InvalidDelayError."""
        return self.settle(name, receipts, self.dacking(delay_seconds))

    def reject(self, name: bytes, receipts: Sequence[bytes], reason: bytes) -> list[bool]:
        """Reject messages for a `reason`; also raises RequestError if it is too long."""
        return self.settle(name, receipts, self.rejecting(name, reason))

    def extend(self, name: bytes, receipts: Sequence[bytes], lease_seconds: float) -> list[bool]:
        """Set the end of leases to `lease_seconds` from now, earlier or later than before.

        Also raises InvalidDelayError.
        """
        return self.settle(name, receipts, self.extending(lease_seconds))

    def settle(self, name: bytes, receipts: Sequence[bytes], act: Settling) -> list[bool]:
        """Settle messages in this iteration of the event loop."""
        books = self._books(name, receipts)
        if len(books) == 1:  # nearly always
            ((group, book),) = books
            return self._settle_in(group, book, parse_prefixed(receipts, book.prefix), act)
        results = [False] * len(receipts)
        for group, book in books:
            results = _either(results, self._settle_in(group, book, parse_prefixed(receipts, book.prefix), act))
        return results

    def settle_if_short(self, name: bytes, receipts: Sequence[bytes], act: Settling) -> list[bool] | None:
        """Settle messages as `settle` does, if that is little work; return None if it is much, and nothing was done."""
        if act.is_returned:
            is_long = len(receipts) > MAX_LARGE_RETURNED and len(receipts) > self._most_returned(name, receipts, act)
            return None if is_long or self.dispatcher.is_crowded() else self.settle(name, receipts, act)
        if len(receipts) <= act.max_count:
            return self.settle(name, receipts, act)
        if not act.is_by_lease or len(receipts) > MAX_WITH_FEW_LEASES:
            return None
        books = self._books(name, receipts)
        if len(books) != 1:
            return None
        ((group, book),) = books
        numbers = parse_prefixed(receipts, book.prefix)
        is_short = book.has_few_leases(numbers, act.max_count)
        return self._settle_in(group, book, numbers, act) if is_short else None

    async def settle_in_turns(self, name: bytes, receipts: Sequence[bytes], act: Settling) -> list[bool]:
        """Settle messages, at once or in turns, so that other work is not kept waiting.

        Messages whose leases end meanwhile are not settled. Also raises BrokenOffError if the store fails meanwhile:
        messages that were settled before may be delivered again.
        """
        results = self.settle_if_short(name, receipts, act)
        if results is None:
            in_turns = self._in_turns(name, receipts, act.in_parts(len(receipts)))
            results = await self._engine.journal.epoch.once(in_turns)
        return results

    async def _in_turns(self, name: bytes, receipts: Sequence[bytes], act: Settling) -> list[bool]:
        results: list[bool] = []
        async with aclosing(self.dispatcher.turns()) as turns:
            async for _ in turns:
                results += self._settle_some(name, receipts[len(results) :], act)
                if len(results) == len(receipts):
                    break
        return results

    def _settle_some(self, name: bytes, receipts: Sequence[bytes], act: Settling) -> list[bool]:
        """Settle the first of some messages, as many as one turn may."""
        if not act.is_returned:
            part = receipts[:MAX_WITH_FEW_LEASES]
            settled = self.settle_if_short(name, part, act)
            return self.settle(name, part[: act.max_count], act) if settled is None else settled
        results: list[bool] = []
        size = self._most_returned(name, receipts, act)
        while len(results) < min(act.max_count, len(receipts)):
            results += self.settle(name, receipts[len(results) : len(results) + size], act)
            if self.dispatcher.is_crowded():
                break
        return results

    def _most_returned(self, name: bytes, receipts: Sequence[bytes], act: Settling) -> int:
        """Return how many messages may be returned before the next look at what is uncommitted."""
        held_bytes = sum(book.size_bytes for _, book in self._books(name, receipts))
        return MAX_LARGE_RETURNED if self.dispatcher.is_crowded(held_bytes) else act.max_count

    def _settle_in(self, group: Group, book: LeaseBook, numbers: Sequence[int], act: Settling) -> list[bool]:
        """Settle messages of one book; return the results."""
        if act.deadline:
            held = book.extend(numbers, act.deadline)
            if group.topic.trace is not None:
                for cursor, lease in held:
                    if cursor.trace is not None:
                        cursor.trace.note(cursor, Kind.EXTENDED, lease)
        elif held := book.take(numbers):
            act.settle(held)
            self.dispatcher.settled(group, size_of(held) if act.is_returned else None)
        if held and group.membership is not None:
            _extend_sessions(group, held)
        return _results(numbers, held)

    def nacking(self, options: NackOptions) -> Settling:
        """Return what `nack` does; raises InvalidDelayError."""
        delay_seconds, reason = options
        if delay_seconds is None:
            return settling.nack(reason)
        return settling.delay(self.dispatcher.due_at_ms(delay_seconds), "nacks", reason)

    def dacking(self, delay_seconds: float) -> Settling:
        """Return what `dack` does; raises InvalidDelayError."""
        return settling.delay(self.dispatcher.due_at_ms(delay_seconds))

    def rejecting(self, name: bytes, reason: bytes) -> Settling:
        """Return what `reject` does; raises RequestError."""
        check_reason(reason)

        def reject(held: list[CursorLease], places: FrontPlaces | None = None) -> None:
            dead_letters.reject(self._engine, self._topics[name], held, reason, places)

        return Settling(reject, settling.MAX_REJECTED, has_places=True)

    def extending(self, lease_seconds: float) -> Settling:
        """Return what `extend` does; raises InvalidDelayError."""
        return settling.extend(self._deadline(check_lease(lease_seconds)))

    def find(self, name: bytes, receipts: Sequence[bytes], max_count: int) -> Found:
        """Find leased messages by their receipts, until over `max_count` leases are inspected; raises as `ack`."""
        are_leased, lease_count, cut_count = [False] * len(receipts), 0, 0
        for _, book in self._books(name, receipts):
            numbers = parse_prefixed(receipts, book.prefix)
            leased = book.find_runs(numbers, max_count - lease_count)
            lease_count, cut_count = lease_count + leased.seen_count, cut_count + leased.cut_count
            if lease_count > max_count:
                break
            if sum(map(itemgetter(1), leased.runs)) == len(receipts):
                are_leased = [True] * len(receipts)
                break
            are_leased = _either(are_leased, which(numbers, leased.runs))
        return Found(are_leased, lease_count, cut_count)

    def attributes_of(self, name: bytes, receipt: bytes) -> bytes | None:
        """Return the encoded attributes of a leased message; None if the receipt names no leased message."""
        books = self._books(name, [receipt])
        by_book = (book.attributes_of(*parse_prefixed([receipt], book.prefix)) for _, book in books)
        return next((attributes for attributes in by_book if attributes is not None), None)

    # --- listing ----------------------------------------------------------------------------------------------

    async def of_group(
        self, name: bytes, group: bytes | None, member: bytes | None = None, after: int = 0, count: int = MAX_COUNT
    ) -> list[HeldMessage]:
        """List leased messages of a group by receipt.

        If `member` is None, these are the messages that any connection can settle; otherwise all of the member.

        Args:
          name: the name of the topic.
          group: the name of the group; None for the default group, or the first if that does not exist.
          member: the name of the member; None for the whole group.
          after: the number in the last receipt of the page before; 0 for the first page.
          count: the maximum number of messages.

        Raises:
          InvalidTopicError, UnknownTopicError, UnknownGroupError, InvalidMemberError.
          UnavailableError: the store is being reopened.
        """
        line, now = group_named(self._existing(name), group), self.dispatcher.clock.monotonic()
        if member is None:
            return await held_messages(line, line.cursors, now, after, count, None)
        check_member(member)
        if line.membership is None:
            return []
        streams = line.membership.streams_of(member)
        return await held_messages(line, line.membership.cursors_of(member), now, after, count, streams)

    async def holders(self, name: bytes, group: bytes) -> list[LeaseHolder]:
        """Return who holds the messages of a group that any connection can settle; raises as `of_group`."""
        return await holders_of(group_named(self._existing(name), group), self.dispatcher.clock.monotonic())

    async def holders_by_group(self, name: bytes) -> dict[bytes, list[LeaseHolder]]:
        """Return the same for each group of a topic in which messages are so leased; raises as `of_group`."""
        leased = [group for group in self._existing(name).existing_groups if group.book is not None]
        now = self.dispatcher.clock.monotonic()
        holders = {group.name: await holders_of(group, now) for group in leased}
        return {group: listed for group, listed in holders.items() if listed}

    def of_receipt(self, name: bytes, receipt: bytes) -> HeldMessage | None:
        """Return the leased message that a receipt names, or None; raises the same errors as `ack`."""
        now = self.dispatcher.clock.monotonic()
        for group, book in self._books(name, [receipt]):
            held = book.find(*parse_prefixed([receipt], book.prefix))
            for message in described(group, [] if held is None else [held[:2]], now):
                if message.receipt == receipt:
                    return message
        return None

    def of_consumer(self, consumer: Consumer) -> list[HeldMessage]:
        """List the messages that a consumer holds, by receipt; raises UnavailableError."""
        self._admission.check_change()
        return list(described(consumer.group, consumer.held(), self.dispatcher.clock.monotonic(), [consumer]))

    def _existing(self, name: bytes) -> Topic:
        """Return a topic whose leases are listed; raises InvalidTopicError, UnknownTopicError, UnavailableError."""
        self._admission.check_change()
        topic = self._topics.get(check_topic(name))
        if topic is None or topic.id is None:
            raise UnknownTopicError
        return topic

    # --- parts of settling ------------------------------------------------------------------------------------

    def _books(self, name: bytes, receipts: Sequence[bytes]) -> list[tuple[Group, LeaseBook]]:
        """Return the books that can have these receipts, with their groups; a receipt begins with that of its book."""
        if not self._admission.may_change:
            self._admission.check_change()
        topic = self._topics.get(name)
        if topic is None:
            check_topic(name)
            return []
        books = [(group, group.book) for group in topic.groups.values() if group.book is not None]
        if len(books) > 1:  # thousands of receipts are not parsed for each of a thousand groups
            prefixes = {receipt[: receipt.find(b"-") + 1] for receipt in receipts}
            books = [(group, book) for group, book in books if book.prefix in prefixes]
        return books

    # --- time -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Return the messages of expired leases to their topics; many in turns."""
        if self._returning is None or self._returning.done():
            self._returning = self.dispatcher.in_parts(self._expire(self.dispatcher.clock.monotonic()))

    def _expire(self, now: float) -> Parts:
        for group in list(self._leased):
            book = group.book
            if book is None or not book.count:
                group.book = None
                del self._leased[group]
            elif expired := book.expire(now, MAX_RETURNED, MUCH_UNCOMMITTED_BYTES):
                places = FrontPlaces(book.count + MAX_RETURNED) if book.has_expired(now) else None
                while expired:
                    returning.nack_all(expired, "timeouts", places=places)
                    count = sum(lease.count for _, lease in expired)
                    group.topic.lease_timeout_count += count
                    self.dispatcher.settled(group, size_of(expired))
                    yield RETURN_COST * count
                    expired = book.expire(now, MAX_RETURNED, MUCH_UNCOMMITTED_BYTES)
            yield LOOK_COST

    def _deadline(self, seconds: float) -> float:
        return self.dispatcher.clock.monotonic() + seconds


def _extend_sessions(group: Group, held: list[CursorLease]) -> None:
    """Extend the sessions of the members whose messages were settled: the settle shows that they are alive."""
    assert group.membership is not None
    for cursor in {id(cursor): cursor for cursor, _ in held}.values():
        group.membership.saw(cursor, group.topic.settings.session_seconds)


def _either(results: list[bool], others: list[bool]) -> list[bool]:
    return list(map(or_, results, others)) if any(results) else others


def _results(numbers: Sequence[int], settled: list[CursorLease]) -> list[bool]:
    if sum(lease.count for _, lease in settled) == len(numbers):
        return [True] * len(numbers)
    return which(list(numbers), [(lease.receipt, lease.count) for _, lease in settled])
