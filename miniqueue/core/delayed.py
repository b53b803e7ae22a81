"""Messages that were published with a delay: each is a record of its own until it is due, then one of the log.

    published ─▶ waits, as `<partition>-<due_at_ms>-<serial>` ─▶ due: appended to the log, with an ordinary id
                     └ cancelled, purged ─▶ gone

Nothing of a message is in memory while it waits: only how many there are, how long, and from when on one may be due.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

#: Behind every due time; a message may be due at any time before it.
MAX_DUE_AT_MS = (1 << 63) - 1

#: The highest number of a priority, as it is stored.
MAX_PRIORITY = 2


class Delayed(NamedTuple):
    """A message that waits for its time.

    Attributes:
      published_at_ms: when it was accepted.
      priority: of the message, as a number; the log that it goes to is of this priority.
      payload: as it was published.
      attributes: likewise, encoded.
    """

    published_at_ms: int
    priority: int
    payload: bytes
    attributes: bytes = b""

    @property
    def content_bytes(self) -> int:
        """How long payload and attributes are together."""
        return len(self.payload) + len(self.attributes)


class DelaysState(NamedTuple):
    """What is stored of all delayed messages of a partition together.

    Attributes:
      message_count: how many wait.
      size_bytes: of their payloads and attributes.
      serial: of the last one that came; no other ever has it.
      head_due_at_ms: none is due before.
    """

    message_count: int = 0
    size_bytes: int = 0
    serial: int = 0
    head_due_at_ms: int = MAX_DUE_AT_MS


NO_DELAYS = DelaysState()

#: Due time and serial: where a message is.
Place = tuple[int, int]
#: Behind every message.
NOWHERE: Place = (MAX_DUE_AT_MS + 1, 0)


class Look:
    """What has changed since somebody began to read the store.

    Attributes:
      gone: what was removed.
      earliest: the first of those that came.
    """

    __slots__ = ("earliest", "gone")

    def __init__(self) -> None:
        self.gone: set[Place] = set()
        self.earliest = NOWHERE


class Delays:
    """The delayed messages of one partition.

    Attributes:
      state: as of now, with what the next commit changes.
      head: none is before.
      committed: as it was last committed; set by `Partition.commit`.
      changes: what the next commit writes, by place; None: to be deleted.
    """

    __slots__ = ("_looks", "changes", "committed", "head", "state")

    def __init__(self, state: DelaysState) -> None:
        self.state = self.committed = state
        self.head: Place = state.head_due_at_ms, 0
        self.changes: dict[Place, Delayed | None] = {}
        self._looks: tuple[Look, ...] = ()

    def add(self, due_at_ms: int, message: Delayed) -> Place:
        """Take in a message with the next commit; return where it is."""
        count, size_bytes, serial, _ = self.state
        place = due_at_ms, serial + 1
        self.head = min(self.head, place) if count else place
        self.state = DelaysState(count + 1, size_bytes + message.content_bytes, serial + 1, self.head[0])
        self.changes[place] = message
        for look in self._looks:
            look.earliest = min(look.earliest, place)
        return place

    def remove(self, place: Place, message: Delayed) -> None:
        """Have a message, which is there, be gone with the next commit."""
        count, size_bytes, serial, head_due_at_ms = self.state
        self.state = DelaysState(count - 1, size_bytes - message.content_bytes, serial, head_due_at_ms)
        self.changes[place] = None
        for look in self._looks:
            look.gone.add(place)

    def advance(self, head: Place) -> None:
        """Note that none of those that are left is before."""
        self.head = head
        self.state = self.state._replace(head_due_at_ms=head[0])

    def cut(self) -> dict[Place, Delayed | None]:
        """Return what the next commit writes, which is under way from now on; `state` is what it leaves."""
        changes, self.changes = self.changes, {}
        return changes

    @contextmanager
    def look(self) -> Iterator[Look]:
        """Return what changes from now on: who reads the store in this block may not see it.

        What has changed before must be committed before reading.
        """
        look = Look()
        self._looks += (look,)
        try:
            yield look
        finally:
            self._looks = tuple(one for one in self._looks if one is not look)
