"""Messages that were published with a delay: each is a record of its own until it is due, then part of the log.

    published ─▶ waits, as `<partition>-<due_at_ms>-<serial>` ─▶ due: appended to the log, with an ordinary id
                     └ cancelled, purged ─▶ deleted

Waiting messages are not in memory, only their number, their size, and a lower bound of the next due time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

#: A time after every due time: the largest signed number of 8 bytes.
MAX_DUE_AT_MS = (1 << 63) - 1

#: The highest stored number of a priority (`lanes.number_of`).
MAX_PRIORITY = 2


class Delayed(NamedTuple):
    """A message that is not due.

    Attributes:
      published_at_ms: the time of its publish.
      priority: the number of its priority, and so of the lane that it is appended to.
      payload: the payload as it was published.
      attributes: the encoded attributes as they were published.
    """

    published_at_ms: int
    priority: int
    payload: bytes
    attributes: bytes = b""

    @property
    def content_bytes(self) -> int:
        """The size of payload and attributes."""
        return len(self.payload) + len(self.attributes)


class DelaysState(NamedTuple):
    """The stored counts of the delayed messages of a partition.

    Attributes:
      message_count: number of waiting messages.
      size_bytes: size of their payloads and attributes.
      serial: the serial number of the newest message; serial numbers are never used twice.
      head_due_at_ms: no message is due before.
    """

    message_count: int = 0
    size_bytes: int = 0
    serial: int = 0
    head_due_at_ms: int = MAX_DUE_AT_MS


NO_DELAYS = DelaysState()

#: The position of a message: its due time and serial number.
Place = tuple[int, int]
#: A position after every message.
NOWHERE: Place = (MAX_DUE_AT_MS + 1, 0)


class ConcurrentChanges:
    """The changes since a reader began to read the store.

    Attributes:
      gone: the positions of removed messages.
      earliest: the first position of the added messages.
    """

    __slots__ = ("earliest", "gone")

    def __init__(self) -> None:
        self.gone: set[Place] = set()
        self.earliest = NOWHERE


class PartitionDelays:
    """The delayed messages of one partition.

    Attributes:
      state: the current counts, including the changes of the next commit.
      head: no message is before this position.
      committed: the counts as of the last commit.
      changes: the messages that the next commit writes, by position; None: it deletes the message.
    """

    __slots__ = ("_looks", "_writing", "changes", "committed", "head", "state")

    def __init__(self, state: DelaysState) -> None:
        self.state = self.committed = state
        self.head: Place = state.head_due_at_ms, 0
        self.changes: dict[Place, Delayed | None] = {}
        self._writing: tuple[dict[Place, Delayed | None], ...] = ()  # commits in progress, the oldest first
        self._looks: tuple[ConcurrentChanges, ...] = ()

    def add(self, due_at_ms: int, message: Delayed) -> Place:
        """Add a message with the next commit; return its position."""
        count, size_bytes, serial, _ = self.state
        position = due_at_ms, serial + 1
        self.head = min(self.head, position) if count else position
        self.state = DelaysState(count + 1, size_bytes + message.content_bytes, serial + 1, self.head[0])
        self.changes[position] = message
        for look in self._looks:
            look.earliest = min(look.earliest, position)
        return position

    def remove(self, position: Place, message: Delayed) -> None:
        """Remove a message, which must exist, with the next commit."""
        count, size_bytes, serial, head_due_at_ms = self.state
        self.state = DelaysState(count - 1, size_bytes - message.content_bytes, serial, head_due_at_ms)
        self.changes[position] = None
        for look in self._looks:
            look.gone.add(position)

    def move(self, position: Place, due_at_ms: int, message: Delayed) -> Place:
        """Give a message, which must exist, another due time with the next commit; return its new position."""
        moved = due_at_ms, position[1]
        if moved != position:
            self.head = min(self.head, moved)
            self.state = self.state._replace(head_due_at_ms=self.head[0])
            self.changes |= {position: None, moved: message}
            for look in self._looks:
                look.gone.add(position)
                look.gone.discard(moved)
                look.earliest = min(look.earliest, moved)
        return moved

    def advance(self, head: Place) -> None:
        """Set the head: no remaining message is before it."""
        self.head = head
        self.state = self.state._replace(head_due_at_ms=head[0])

    def cut(self) -> dict[Place, Delayed | None]:
        """Return the changes of a commit that begins now; `state` is the state after it."""
        changes, self.changes = self.changes, {}
        self._writing += (changes,)
        return changes

    def commit(self, state: DelaysState) -> None:
        """Record that the oldest commit in progress is done, with the state after it."""
        self.committed = state
        self._writing = self._writing[1:]

    def unwritten(self, position: Place) -> Delayed | None:
        """Return a message that the store may not contain yet; None if it contains the message, or there is none."""
        return next((changes[position] for changes in (self.changes, *self._writing) if changes.get(position)), None)

    @contextmanager
    def look(self) -> Iterator[ConcurrentChanges]:
        """Yield the changes during the block, which a reader of the store may not see.

        Earlier changes must be committed before reading.
        """
        look = ConcurrentChanges()
        self._looks += (look,)
        try:
            yield look
        finally:
            self._looks = tuple(other for other in self._looks if other is not look)
