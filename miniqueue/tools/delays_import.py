"""Turns imported messages that are not due into the keys and values that the broker would have written."""

from miniqueue.core.delayed import NO_DELAYS, DelaysState
from miniqueue.errors import InvalidLineError
from miniqueue.storage import delay_keys, delay_records
from miniqueue.tools.delayed_lines import StoredDelayed
from miniqueue.tools.seen import Seen


class DelaysImport:
    """Those of one new topic.

    Attributes:
      state: the counts of all so far.
    """

    def __init__(self, topic_id: int) -> None:
        self.state = NO_DELAYS
        self._topic_id = topic_id
        self._serials = Seen()

    def take(self, delayed: StoredDelayed, batch: dict[bytes, bytes | None]) -> None:
        """Add a message; raises InvalidLineError when there is one with its serial."""
        (due_at_ms, serial), message = delayed.place, delayed.message
        if not self._serials.add(serial):
            raise InvalidLineError(f"another message that is not due has the serial {serial}")
        count, size_bytes, last_serial, head_due_at_ms = self.state
        size_bytes += message.content_bytes
        self.state = DelaysState(count + 1, size_bytes, max(serial, last_serial), min(due_at_ms, head_due_at_ms))
        key = delay_keys.delayed(self._topic_id, 0, due_at_ms, serial)
        batch[key] = delay_records.encode_delayed(message)

    def finish(self, batch: dict[bytes, bytes | None]) -> None:
        """Add the counts, if there was a message."""
        if self.state.message_count:
            batch[delay_keys.delays(self._topic_id, 0)] = delay_records.encode_delays(self.state)
