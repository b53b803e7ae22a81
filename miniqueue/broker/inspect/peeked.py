"""Messages as an inspection shows them, with their states; and the parsers of the words that request them."""

from enum import StrEnum
from typing import NamedTuple

from miniqueue.broker.stored.browse import StoredMessage
from miniqueue.core.message.ids import DelayedId, format_message_id
from miniqueue.errors.requests import InvalidOptionError

#: Maximum number of messages that one request may ask for.
MAX_COUNT = 1000


class State(StrEnum):
    """The states of messages that an inspection can show."""

    READY = "ready"
    LEASED = "leased"
    DELAYED = "delayed"
    DEAD = "dead"


class PeekedMessage(NamedTuple):
    """A message, with its state at the time of the inspection.

    Attributes:
      partition: the number of its partition.
      state: its state.
      due_at_ms: when it will be ready; None unless it is delayed.
      stored: its content, when it was published, and how often it was returned.
    """

    partition: int
    state: State
    due_at_ms: int | None
    stored: StoredMessage

    @property
    def id(self) -> tuple[int, int] | DelayedId:
        """The parts of its id: partition and sequence number, or a `DelayedId`."""
        return self.stored.delayed_id or (self.partition, self.stored.seq)

    @property
    def message_id(self) -> bytes:
        """Its id, as clients see it."""
        delayed_id = self.stored.delayed_id
        return format_message_id(self.partition, self.stored.seq) if delayed_id is None else bytes(delayed_id)


def parse_count(word: bytes) -> int:
    """Return the number of messages that a client asks for; raises InvalidOptionError."""
    if not word.isdigit() or len(word) > 9 or not 0 < int(word) <= MAX_COUNT:
        raise InvalidOptionError(f"a count is a whole number from 1 to {MAX_COUNT}")
    return int(word)


def parse_state(word: bytes) -> State:
    """Return the state that a client names; raises InvalidOptionError."""
    try:
        return State(word.decode("ascii", "replace").lower())
    except ValueError as exc:
        raise InvalidOptionError(f"a state is one of {', '.join(State)}") from exc
