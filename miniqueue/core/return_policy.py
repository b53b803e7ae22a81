"""What a topic's settings say about messages that come back; asked by the cursor, answered by the broker."""

from typing import Protocol

from miniqueue.core.message import Record


class ReturnPolicy(Protocol):
    """Decides where a message goes that comes back; its counts have this return in them."""

    def bury(self, record: Record) -> bool:
        """Make the message a dead letter, to be stored with the same commit, if it came back too often; say so."""
        ...

    def due_at_ms(self, record: Record, cause: str) -> int | None:
        """Return when the message may be handed out again, or None for at once; `cause` is that of this return."""
        ...
