"""What a group and a topic know of the parts that work on them: protocols and values, so no import goes upward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.cursor.lease import Lease
from miniqueue.core.keyed.key_queue import KeyRules
from miniqueue.core.keyed.reader import LateReader


@dataclass(frozen=True, slots=True)
class TopicStats:
    """Statistics of a topic, in messages, except `consumers` and `waiting`, which count consumers, and `size_bytes`.

    `size_bytes` is the total size of the payloads of ready, leased, and delayed messages. `expired` counts since
    startup; each expired message is also `dropped` or `moved`. `duplicates` counts publishes since startup that
    returned the id of an earlier message; `dedup_ids` is the number of dedup ids in memory.
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
    expired: int
    duplicates: int
    dedup_ids: int


class FlowRules(NamedTuple):
    """The rules for the flow of a topic's messages, from its settings.

    Attributes:
      keys: the rules for each key; None: messages are delivered regardless of their keys.
      max_leased: maximum number of leased messages of a group; 0: unlimited.
      per_second: maximum number of delivered messages per second in a group; 0: unlimited.
    """

    keys: KeyRules | None = None
    max_leased: int = 0
    per_second: float = 0.0


class FlowControl(Protocol):
    """Controls the flow of a group's messages; implemented by `flow.FlowControl`."""

    rules: FlowRules
    arranged: Sequence[GroupCursor]
    late: LateReader | None

    def room(self, max_count: int) -> int:
        """Return how many of `max_count` messages may be delivered now."""
        ...

    def spend(self, count: int) -> None:
        """Count delivered messages; a negative number takes back messages that were not delivered after all."""
        ...

    def settled(self) -> None:
        """Serve the consumers that wait soon: the settled message may have blocked others."""
        ...


class Member(Protocol):
    """A member of a group; implemented by `consume.membership.Member`."""

    name: bytes
    partitions: list[int]

    def take(self, max_count: int, horizon_ms: int) -> tuple[GroupCursor, Lease] | None:
        """Lease the next run of messages of the partitions that the member reads, as `Group.take` does."""
        ...

    @property
    def is_blocked(self) -> bool:
        """Whether the last `take` could not continue until messages are read from the store."""
        ...

    def leave(self, session_seconds: float = 0.0) -> None:
        """Remove one consumer of this member; the member stays for `session_seconds`, or while it has others."""
        ...


class Holder(Protocol):
    """A consumer that stays connected, and holds leases; implemented by `consume.consumer.Consumer`."""

    def deadline_of(self, lease: Lease) -> float | None:
        """Return when a lease ends that the consumer holds; None if it has no deadline, or is not held."""
        ...


class Membership(Protocol):
    """The members of a group; implemented by `consume.membership.Membership`."""

    @property
    def members(self) -> Mapping[bytes, Member]:
        """The members by name."""
        ...

    @property
    def moving(self) -> dict[int, bytes]:
        """The partitions that no member reads now, and the name of the member that will."""
        ...

    def cursors_of(self, name: bytes) -> list[GroupCursor]:
        """Return the cursors that a member reads, or has leases of until they move; none for an unknown member."""
        ...

    def streams_of(self, name: bytes) -> Sequence[Holder]:
        """Return the consumers of a member that stay connected."""
        ...

    def cursors_replaced(self) -> None:
        """Continue with the cursors that the group has now; leases of others have ended."""
        ...

    def saw(self, cursor: GroupCursor, session_seconds: float) -> None:
        """Record that a message of this cursor was settled: the member that reads its partition is there."""
        ...
