"""Lists leased messages with their receipts: of a group, of one of its members, or of one consumer.

    leases of the cursors ─▶ lowest receipts after the last page ─▶ still leased? ─▶ one HeldMessage for each message

A lease that is in the group's book has a receipt that any connection can settle, and a deadline. The receipt of a lease
of a stream is a number that only the stream knows; the lease has a deadline if the stream has a lease time, and else
lasts as long as the stream.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Final, NamedTuple

from miniqueue.broker.model.parts import Holder
from miniqueue.broker.model.topic import Group
from miniqueue.broker.runtime.accounts import MemoryAccount
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.holding import CursorLease
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.cursor.lease_book import Payer
from miniqueue.core.group import view
from miniqueue.core.message.ids import format_message_id
from miniqueue.core.message.parts import whole_of
from miniqueue.core.options.read import partition_word
from miniqueue.errors.requests import InvalidOptionError

#: Maximum number of messages in one reply: about 150 KB.
MAX_COUNT: Final = 1000
#: Maximum number of leases that one event-loop iteration inspects; this takes about a millisecond.
_LEASES_IN_TURN: Final = 2048
#: Maximum number of digits of a receipt; longer numbers take long to parse.
_MAX_DIGITS: Final = 19


class HeldMessage(NamedTuple):
    """A leased message.

    Attributes:
      topic: the name of its topic.
      partition: its partition, or lane, as its id begins.
      group: the name of the group that it was delivered to.
      id: the message id.
      receipt: settles it; only on the stream that holds it, if it is a number.
      remaining_ms: the time until the lease ends; None if it lasts as long as the stream.
    """

    topic: bytes
    partition: bytes
    group: bytes
    id: bytes
    receipt: bytes
    remaining_ms: int | None


class LeaseHolder(NamedTuple):
    """Who holds leased messages that any connection can settle.

    Attributes:
      user: the name of the user; None for clients that have not authenticated.
      address: the address of such clients; None if it is not known either.
      leased: number of messages.
      remaining_ms: the time until the first of their leases ends.
    """

    user: str | None
    address: str | None
    leased: int
    remaining_ms: int


async def holders_of(group: Group, now: float) -> list[LeaseHolder]:
    """Return who holds the leases in the book of a group, the one with most messages first; `now` as `held_messages`.

    Leases are charged to the user, or to the address, that received the messages.
    """
    held = [] if group.book is None else group.book.held()
    totals: dict[tuple[str | None, str | None], tuple[int, float]] = {}
    for start in range(0, len(held), _LEASES_IN_TURN):
        for _, lease, deadline, payer in held[start : start + _LEASES_IN_TURN]:
            holder = _holder_of(payer)
            leased, first = totals.get(holder, (0, deadline))
            totals[holder] = leased + lease.count, min(first, deadline)
        await asyncio.sleep(0)
    holders = [
        LeaseHolder(*holder, leased, max(0, round(1000 * (first - now)))) for holder, (leased, first) in totals.items()
    ]
    return nsmallest(MAX_COUNT, holders, key=lambda each: (-each.leased, each.user or "", each.address or ""))


def _holder_of(payer: Payer | None) -> tuple[str | None, str | None]:
    """Return the user, or the address, that pays for a lease."""
    if not isinstance(payer, MemoryAccount):
        return None, None
    return (payer.key, None) if payer.is_of_user else (None, payer.key or None)


def parse_after(receipt: bytes) -> int:
    """Return the number in the last receipt of a page; raises InvalidOptionError."""
    digits = receipt.rpartition(b"-")[2]
    if not digits.isdigit() or len(digits) > _MAX_DIGITS:
        raise InvalidOptionError("after is the last receipt of the previous page")
    return int(digits)


async def held_messages(
    group: Group, cursors: Iterable[GroupCursor], now: float, after: int, count: int, streams: Sequence[Holder] | None
) -> list[HeldMessage]:
    """Return the messages with the lowest receipts after `after` that are leased by some cursors of a group.

    Args:
      group: the group of the cursors.
      cursors: the cursors that gave the leases.
      now: the time on the clock of the deadlines, in seconds.
      after: the number in a receipt; 0 for the first page.
      count: the maximum number of messages.
      streams: the streams that may hold leases of the cursors; None: leases of streams are left out.
    """
    page: list[HeldMessage] = []
    inspected_count = 0
    for cursor in sorted(cursors, key=attrgetter("next_receipt")):  # cursors have disjoint ranges of receipts
        for lease in await _lowest(group, cursor, after, count - len(page), only_in_book=streams is None):
            if cursor.leases.get(lease.receipt) is lease:  # the lease may have ended during the await
                numbered = _described(group, cursor, lease, now, streams or ())
                page += (held for number, held in numbered if number > after)
            inspected_count += len(streams or ())
            if inspected_count >= _LEASES_IN_TURN:
                inspected_count = 0
                await asyncio.sleep(0)
        if len(page) >= count:
            break
    return page[:count]


async def _lowest(group: Group, cursor: GroupCursor, after: int, count: int, *, only_in_book: bool) -> list[Lease]:
    """Return the lowest leases that contain a receipt above `after`; at most `count` leases."""
    lowest: list[Lease] = []
    leases = view.leases(cursor)
    for start in range(0, len(leases), _LEASES_IN_TURN):
        above = [lease for lease in leases[start : start + _LEASES_IN_TURN] if lease.receipt + lease.count > after + 1]
        if only_in_book:
            above = [lease for lease in above if _deadline_in_book(group, lease) is not None]
        lowest = nsmallest(count, [*lowest, *above], key=attrgetter("receipt"))
        await asyncio.sleep(0)
    return lowest


def described(
    group: Group, leases: Iterable[CursorLease], now: float, streams: Sequence[Holder] = ()
) -> Iterator[HeldMessage]:
    """Yield the messages of leases that have not ended; `streams` may hold them."""
    for cursor, lease in leases:
        if cursor.leases.get(lease.receipt) is lease:
            yield from (held for _, held in _described(group, cursor, lease, now, streams))


def _described(
    group: Group, cursor: GroupCursor, lease: Lease, now: float, streams: Sequence[Holder]
) -> Iterator[tuple[int, HeldMessage]]:
    """Yield each message of a lease with the number in its receipt."""
    deadline, partition = _deadline_in_book(group, lease), cursor.partition
    prefix = b"" if group.book is None or deadline is None else group.book.prefix
    if deadline is None:
        ends = (stream.deadline_of(lease) for stream in streams)
        deadline = next((end for end in ends if end is not None), None)
    remaining_ms = None if deadline is None else max(0, round(1000 * (deadline - now)))
    for n in range(lease.count):
        number, message_id = lease.receipt + n, format_message_id(partition, lease.first_seq + n)
        receipt = b"%b%d" % (prefix, number)
        word = partition_word(partition)
        yield number, HeldMessage(whole_of(group.topic.name), word, group.name, message_id, receipt, remaining_ms)


def _deadline_in_book(group: Group, lease: Lease) -> float | None:
    held = None if group.book is None else group.book.find(lease.receipt)
    return held[2] if held is not None and held[1] is lease else None
