"""The members of a group, and which partitions each of them reads.

    a member joins, leaves ─▶ assign ─▶ a partition must move ─▶ no member takes from it ─▶ its leases end ─▶ moved
      or dies                  └ all others stay as they are          └ or, after `handover_seconds`, they are
                                                                        returned, counted as timeouts
So all messages of a partition that the previous member leased are settled, or back at the front, before the next member
gets a message of it: this keeps the order. All lanes of a partition move with it. None of this is stored: after a
restart, the members that join build it again.
"""

from collections.abc import Callable
from typing import Final, Protocol

from miniqueue.broker.consume.member_clock import MemberClock
from miniqueue.broker.model.topic import Group
from miniqueue.broker.runtime.accounts import MemoryAccount, Purpose
from miniqueue.core.cursor import returning
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.group import view
from miniqueue.core.group.assignment import assign, shares_in_part
from miniqueue.core.group.turns import turns_among
from miniqueue.core.message.lanes import partition_of
from miniqueue.core.message.parts import parse_part

#: The memory of a member besides its name, about.
MEMBER_BYTES: Final = 400


class MemberStream(Protocol):
    """A consumer of a member that stays connected, and has a session."""

    def deadline_of(self, lease: Lease) -> float | None:
        """Return when a lease ends that the consumer holds; None if it has no deadline, or is not held."""
        ...

    def is_late(self, now: float) -> bool:
        """Return whether the session has expired."""
        ...

    def end_session(self) -> None:
        """Leave, and return the messages held."""
        ...


class Member:
    """A reader of some partitions of a group; several consumers can have its name, and compete for its messages.

    Attributes:
      name: the name of the member.
      membership: the membership that the member belongs to.
      payer: is charged for the member's memory until it leaves; None if the broker itself joined.
      partitions: the partitions that the member reads now.
      consumer_count: number of its current streams and requests.
      expires_at: when the member leaves if it has no consumer then, on the clock of the membership.
    """

    __slots__ = ("_turns", "consumer_count", "expires_at", "membership", "name", "partitions", "payer")

    def __init__(self, name: bytes, membership: "Membership", payer: MemoryAccount | None) -> None:
        self.name = name
        self.membership = membership
        self.payer = payer
        self.partitions: list[int] = []
        self.consumer_count = 0
        self.expires_at = 0.0
        self._turns = turns_among(())

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of messages of the member's partitions; see `Group.take`."""
        return self.membership.group.take_from(self._turns, max_count, horizon_ms)

    def leave(self, session_seconds: float = 0.0) -> None:
        """Remove one consumer of this member; the member stays for `session_seconds`, or while it has consumers."""
        self.membership.leave(self, session_seconds)

    @property
    def is_blocked(self) -> bool:
        """Whether the last `take` ended because messages must be loaded from the store first."""
        return self._turns.is_blocked

    def read(self, partitions: list[int], cursors: list[GroupCursor]) -> None:
        """Set the partitions that the member reads from now on, with their cursors."""
        self.partitions = partitions
        self._turns = turns_among(cursors)


class Membership:
    """Assigns the partitions of a group to its members.

    Args:
      group: the group of the members.
      clock: measures sessions and handovers.
      changed: called when partitions begin to move, or have moved.

    Attributes:
      clock: measures sessions and handovers.
      streams: the consumers of members that stay connected, with the names of the members.
    """

    def __init__(self, group: Group, clock: MemberClock, changed: Callable[["Membership"], None]) -> None:
        self.group = group
        self.members: dict[bytes, Member] = {}
        self.streams: dict[MemberStream, bytes] = {}
        self.clock = clock
        self._changed = changed
        self._wanted: dict[int, Member] = {}
        self._holders: dict[int, Member] = {}  # the current or last reader, by partition
        self._moving: dict[int, float] = {}  # when leases must end, by partition that is moving
        self._cursors: dict[int, list[GroupCursor]] = {}
        self._know_cursors()

    @property
    def consumer_count(self) -> int:
        """Number of consumers that belong to members."""
        return sum(member.consumer_count for member in self.members.values())

    @property
    def is_moving(self) -> bool:
        """Whether a partition is moving, and waits for the leases of its last member to end."""
        return bool(self._moving)

    @property
    def moving(self) -> dict[int, bytes]:
        """The partitions that no member reads now, with the names of their next members."""
        return {number: self._wanted[number].name for number in sorted(self._moving)}

    def streams_of(self, name: bytes) -> list[MemberStream]:
        """Return the consumers of a member that stay connected."""
        return [stream for stream, owner in self.streams.items() if owner == name]

    def cursors_of(self, name: bytes) -> list[GroupCursor]:
        """Return the cursors that a member reads, or has leases of until their partitions move.

        The list is empty if no member has this name.
        """
        return [
            cursor
            for number, member in self._holders.items()
            if member.name == name
            for cursor in self._cursors.get(number, ())
        ]

    def join(self, name: bytes, payer: MemoryAccount | None = None) -> Member:
        """Add a consumer to the member of a name, and return the member.

        If it is new, partitions move, and `payer` is charged for it.
        """
        member = self.members.get(name)
        is_new = member is None
        if member is None:
            member = self.members[name] = Member(name, self, payer)
            _charge(member, 1)
        member.consumer_count += 1
        if is_new:
            self._rebalance()
        return member

    def leave(self, member: Member, session_seconds: float = 0.0) -> None:
        """Remove a consumer of a member; the member stays for `session_seconds`, or while it has consumers."""
        member.consumer_count -= 1
        member.expires_at = max(member.expires_at, self.clock.now() + session_seconds)
        if not session_seconds:
            self.end_sessions()

    def saw(self, cursor: GroupCursor, session_seconds: float) -> None:
        """Extend the session of the member that reads a cursor: a message of this cursor was settled."""
        member = self._holders.get(partition_of(cursor.partition))
        if member is not None:
            member.expires_at = max(member.expires_at, self.clock.now() + session_seconds)

    def end_sessions(self) -> None:
        """Remove the members that have no consumer and whose session has expired."""
        now = self.clock.now()
        expired = [member for member in self.members.values() if not member.consumer_count and member.expires_at <= now]
        for member in expired:
            del self.members[member.name]
            _charge(member, -1)
        if expired:
            self._rebalance()

    def late_streams(self, now: float) -> list[MemberStream]:
        """Return the streams whose sessions have expired."""
        return [stream for stream in self.streams if stream.is_late(now)]

    def cursors_replaced(self) -> None:
        """Continue with the cursors that the group has now; the leases of its former cursors have ended.

        Partitions that still have all their cursors are not affected; partitions or lanes were only added.
        """
        before = self._cursors
        self._know_cursors()
        kept = {number for number, cursors in before.items() if {*cursors} <= {*self._cursors.get(number, ())}}
        self._holders = {number: member for number, member in self._holders.items() if number in kept}
        self._moving = {number: deadline for number, deadline in self._moving.items() if number in kept}
        for member in self.members.values():
            member.read([], [])
        if self._cursors:  # none if the topic was deleted, or until it has been reloaded
            self._rebalance()

    def _know_cursors(self) -> None:
        self._cursors = {}
        for cursor in self.group.cursors:  # in order of their lanes
            self._cursors.setdefault(partition_of(cursor.partition), []).append(cursor)

    def _rebalance(self) -> None:
        self._wanted = assign([*self.members.values()], self._cursors, self._wanted, self._shares())
        deadline = self.clock.now() + self.group.topic.settings.handover_seconds
        self._holders = {number: self._holders[number] for number in self._holders if number in self._wanted}
        moving = [number for number, member in self._wanted.items() if self._holders.get(number) is not member]
        self._moving = {number: self._moving.get(number, deadline) for number in moving}
        self.look()
        self._share_out()
        self._changed(self)

    def _shares(self) -> dict[Member, int] | None:
        """Return how many partitions each member gets, if the topic is a part of a spread one."""
        part = parse_part(self.group.topic.name)
        if part is None or not self.members:
            return None
        shares = shares_in_part(self.members, len(self._cursors), part[1])
        return {self.members[name]: share for name, share in shares.items()}

    def look(self) -> bool:
        """Complete the moves that are possible now; return whether there were any."""
        now = self.clock.now()
        free = [number for number, deadline in self._moving.items() if self._is_free(number, now >= deadline)]
        for number in free:
            del self._moving[number]
            self._holders[number] = self._wanted[number]
        if free:
            self._share_out()
        return bool(free)

    def _is_free(self, number: int, is_late: bool) -> bool:
        """Return whether a partition has no leases; if the move is late, first return its leased messages."""
        for cursor in self._cursors[number] if is_late else ():
            self._return(cursor)
        return not any(cursor.leased_count for cursor in self._cursors[number])

    def _return(self, cursor: GroupCursor) -> None:
        book = self.group.book
        if book is not None:
            book.forget(cursor)
        leases = sorted(view.leases(cursor), key=_receipt)
        returning.nack_all([(cursor, lease) for lease in leases], "timeouts")

    def _share_out(self) -> None:
        by_member: dict[Member, list[int]] = {member: [] for member in self.members.values()}
        for number, member in self._holders.items():
            if number not in self._moving:
                by_member[member].append(number)
        for member, numbers in by_member.items():
            if sorted(numbers) != member.partitions:
                mine = set(numbers)
                cursors = [cursor for cursor in self.group.cursors if partition_of(cursor.partition) in mine]
                member.read(sorted(numbers), cursors)


def _charge(member: Member, count: int) -> None:
    if member.payer is not None:
        member.payer.add(Purpose.TOPICS, count * (MEMBER_BYTES + len(member.name)))


def _receipt(lease: Lease) -> int:
    return lease.receipt
