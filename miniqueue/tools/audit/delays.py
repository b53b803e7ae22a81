"""Checks the delayed messages of one partition, and their statistics."""

from miniqueue.core.log.delayed import MAX_DUE_AT_MS, NO_DELAYS, Delayed, DelaysState, Place
from miniqueue.tools.audit.problems import Problems
from miniqueue.tools.lines.sequence_set import SequenceSet


class DelaysAudit:
    """Check of one partition: call `set_state`, then `take` for every message, then `finish`.

    Attributes:
      message_count: number of messages taken so far.
    """

    def __init__(self, key: bytes, problems: Problems) -> None:
        self.message_count = 0
        self._key = key
        self._problems = problems
        self._state: DelaysState | None = NO_DELAYS  # None: it cannot be read
        self._size_bytes = 0
        self._is_readable = True
        self._serials = SequenceSet()

    def set_state(self, state: DelaysState | None) -> None:
        """Take the statistics; None if they cannot be read."""
        self._state = state

    def take(self, key: bytes, position: Place, message: Delayed | None) -> None:
        """Check the next message; None if it cannot be read."""
        self.message_count += 1
        due_at_ms, serial = position
        if message is None:
            self._is_readable = False
        else:
            self._size_bytes += message.content_bytes
        if due_at_ms > MAX_DUE_AT_MS:
            self._problems.add("the due time is too late for any message", key)
        if not serial or not self._serials.add(serial):
            self._problems.add(f"another message has the serial {serial}" if serial else "has no serial", key)
        if self._state is not None and serial > self._state.serial:
            self._problems.add(f"has the serial {serial}, but the last was {self._state.serial}", key)
        if self._state is not None and self.message_count == 1 and due_at_ms < self._state.head_due_at_ms:
            self._problems.add(
                f"is due before {self._state.head_due_at_ms}, the earliest due time in the statistics", key
            )

    def finish(self) -> None:
        """Compare the statistics with the messages, after the last message."""
        if self._state is None:
            return
        if (counted := self._state.message_count) != self.message_count:
            self._problems.add(f"counts {counted} delayed messages, but there are {self.message_count}", self._key)
        if self._is_readable and (counted := self._state.size_bytes) != self._size_bytes:
            self._problems.add(
                f"counts {counted} bytes of delayed messages, but there are {self._size_bytes}", self._key
            )
