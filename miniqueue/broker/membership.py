"""The members of a group, and which partitions each of them reads.

    joins, leaves, dies ─▶ assign ─▶ a partition is to move ─▶ nobody takes from it ─▶ its leases are over ─▶ moved
                              └ all others go on as before          └ … or return, counted as timeouts, in time

So what a member was handed is settled, or back in front, before the next member is handed anything of that partition:
its order holds. All lanes of a partition go with it. Nothing of this is stored: after a restart those who come make it
anew.
"""

from collections.abc import Callable
from typing import Protocol

from miniqueue.broker.clock import Clock
from miniqueue.broker.group import Group
from miniqueue.core import cursor_view, returning
from miniqueue.core.assignment import assign
from miniqueue.core.cursor import GroupCursor
from miniqueue.core.lane_turns import turns_among
from miniqueue.core.lanes import partition_of
from miniqueue.core.lease import Lease


class MemberStream(Protocol):
    """A consumer of a member that stays, and has a session."""

    def is_late(self, now: float) -> bool:
        """Tell whether the session is over."""
        ...

    def end_session(self) -> None:
        """Leave, and return what is held."""
        ...


class Member:
    """Who reads some partitions of a group; one name may have many consumers, which compete for them.

    Attributes:
      name: of the member.
      membership: that it is of.
      partitions: those that it reads now.
      consumer_count: streams and requests that are there.
      expires_at: when it is gone if nobody is there, on a clock that only goes forward.
    """

    __slots__ = ("_turns", "consumer_count", "expires_at", "membership", "name", "partitions")

    def __init__(self, name: bytes, membership: "Membership") -> None:
        self.name = name
        self.membership = membership
        self.partitions: list[int] = []
        self.consumer_count = 0
        self.expires_at = 0.0
        self._turns = turns_among(())

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of messages of these partitions, as `Group.take`."""
        return self.membership.group.take_from(self._turns, max_count, horizon_ms)

    @property
    def is_blocked(self) -> bool:
        """Whether the last `take` could not go on before something was read from the store."""
        return self._turns.is_blocked

    def read(self, partitions: list[int], cursors: list[GroupCursor]) -> None:
        """Read these partitions from now on, of which these are the cursors."""
        self.partitions = partitions
        self._turns = turns_among(cursors)


class Membership:
    """Says which member reads which partition.

    Args:
      group: of the members.
      clock: tells whose time is over.
      changed: called when partitions move, or have moved.

    Attributes:
      streams: the consumers of members that stay.
    """

    def __init__(self, group: Group, clock: Clock, changed: Callable[["Membership"], None]) -> None:
        self.group = group
        self.members: dict[bytes, Member] = {}
        self.streams: dict[MemberStream, None] = {}
        self._clock = clock
        self._changed = changed
        self._wanted: dict[int, Member] = {}
        self._holders: dict[int, Member] = {}  # who reads a partition, or was the last to do so
        self._moving: dict[int, float] = {}  # until when leases are waited for, by partition
        self._cursors: dict[int, list[GroupCursor]] = {}
        self._know_cursors()

    @property
    def consumer_count(self) -> int:
        """How many consumers are members' own."""
        return sum(member.consumer_count for member in self.members.values())

    @property
    def is_moving(self) -> bool:
        """Whether some partition waits for what its last member has leased."""
        return bool(self._moving)

    @property
    def moving(self) -> dict[int, bytes]:
        """The partitions that nobody reads now, and who will."""
        return {number: self._wanted[number].name for number in sorted(self._moving)}

    def join(self, name: bytes) -> Member:
        """Return the member of a name, with one consumer more; partitions move if it is new."""
        member = self.members.get(name)
        is_new = member is None
        if member is None:
            member = self.members[name] = Member(name, self)
        member.consumer_count += 1
        if is_new:
            self._rebalance()
        return member

    def leave(self, member: Member, session_seconds: float = 0.0) -> None:
        """Note that a consumer of a member has gone; the member stays for a time, or as long as it has others."""
        member.consumer_count -= 1
        member.expires_at = max(member.expires_at, self._clock.monotonic() + session_seconds)
        if not session_seconds:
            self.end_sessions()

    def saw(self, cursor: GroupCursor, session_seconds: float) -> None:
        """Note that a message of this cursor was settled: who reads its partition is there."""
        member = self._holders.get(partition_of(cursor.partition))
        if member is not None:
            member.expires_at = max(member.expires_at, self._clock.monotonic() + session_seconds)

    def end_sessions(self) -> None:
        """Have members leave that are not there any more."""
        now = self._clock.monotonic()
        gone = [one for one in self.members.values() if not one.consumer_count and one.expires_at <= now]
        for member in gone:
            del self.members[member.name]
        if gone:
            self._rebalance()

    def late_streams(self) -> list[MemberStream]:
        """Return those whose sessions are over."""
        now = self._clock.monotonic()
        return [stream for stream in self.streams if stream.is_late(now)]

    def cursors_replaced(self) -> None:
        """Go on with the cursors that the group has now; leases of others have ended.

        Partitions whose cursors are there still go on as before: there are only more of them, or more lanes.
        """
        before = self._cursors
        self._know_cursors()
        kept = {number for number, cursors in before.items() if {*cursors} <= {*self._cursors.get(number, ())}}
        self._holders = {number: member for number, member in self._holders.items() if number in kept}
        self._moving = {number: deadline for number, deadline in self._moving.items() if number in kept}
        for member in self.members.values():
            member.read([], [])
        if self._cursors:  # else the topic is gone, or is read anew: then it is as before
            self._rebalance()

    def _know_cursors(self) -> None:
        self._cursors = {}
        for cursor in self.group.cursors:  # in order of their lanes
            self._cursors.setdefault(partition_of(cursor.partition), []).append(cursor)

    def _rebalance(self) -> None:
        self._wanted = assign([*self.members.values()], self._cursors, self._wanted)
        deadline = self._clock.monotonic() + self.group.topic.settings.handover_seconds
        self._holders = {number: self._holders[number] for number in self._holders if number in self._wanted}
        moving = [number for number, member in self._wanted.items() if self._holders.get(number) is not member]
        self._moving = {number: self._moving.get(number, deadline) for number in moving}
        self.look()
        self._share_out()
        self._changed(self)

    def look(self) -> bool:
        """Move what can be moved by now; return whether anything was."""
        now = self._clock.monotonic()
        free = [number for number, deadline in self._moving.items() if self._is_free(number, now >= deadline)]
        for number in free:
            del self._moving[number]
            self._holders[number] = self._wanted[number]
        if free:
            self._share_out()
        return bool(free)

    def _is_free(self, number: int, is_late: bool) -> bool:
        """Tell whether nothing of a partition is leased; return what is when it is late."""
        for cursor in self._cursors[number] if is_late else ():
            self._return(cursor)
        return not any(cursor.leased_count for cursor in self._cursors[number])

    def _return(self, cursor: GroupCursor) -> None:
        book = self.group.book
        if book is not None:
            book.forget(cursor)
        leases = sorted(cursor_view.leases(cursor), key=_receipt)
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


def _receipt(lease: Lease) -> int:
    return lease.receipt
