"""Checks the messages of one partition that were published with a delay: each against the counts of all."""

from miniqueue.core.delayed import MAX_DUE_AT_MS, NO_DELAYS, Delayed, DelaysState, Place
from miniqueue.tools.problems import Problems
from miniqueue.tools.seen import Seen


class DelaysAudit:
    """One partition, for one walk: the counts, then every message, then `finish`.

    Attributes:
      message_count: taken so far.
    """

    def __init__(self, key: bytes, problems: Problems) -> None:
        self.message_count = 0
        self._key = key
        self._problems = problems
        self._state: DelaysState | None = NO_DELAYS  # None: it could not be read
        self._size_bytes = 0
        self._is_readable = True
        self._serials = Seen()

    def set_state(self, state: DelaysState | None) -> None:
        """Take the counts, None when they could not be read."""
        self._state = state

    def take(self, key: bytes, place: Place, message: Delayed | None) -> None:
        """Take the next message, None for one that could not be read."""
        self.message_count += 1
        due_at_ms, serial = place
        if message is None:
            self._is_readable = False
        else:
            self._size_bytes += message.content_bytes
        if due_at_ms > MAX_DUE_AT_MS:
            self._problems.add("is due when no message can be", key)
        if not serial or not self._serials.add(serial):
            self._problems.add(f"another message has the serial {serial}" if serial else "has no serial", key)
        if self._state is not None and serial > self._state.serial:
            self._problems.add(f"has the serial {serial}, but the last was {self._state.serial}", key)
        if self._state is not None and self.message_count == 1 and due_at_ms < self._state.head_due_at_ms:
            self._problems.add(f"is due before {self._state.head_due_at_ms}, when none is", key)

    def finish(self) -> None:
        """Compare the counts, when every message was taken."""
        if self._state is None:
            return
        if (counted := self._state.message_count) != self.message_count:
            self._problems.add(f"counts {counted} messages that wait, there are {self.message_count}", self._key)
        if self._is_readable and (counted := self._state.size_bytes) != self._size_bytes:
            self._problems.add(f"counts {counted} bytes of messages that wait, there are {self._size_bytes}", self._key)
