"""What a topic holds: messages in chunks, and messages that came back.

A message is known by its sequence number `seq`, its place in the partition's log. Messages stay in the chunk of
their commit until they are acknowledged, or until they come back and become a `Record` of their own.
"""

from collections.abc import Iterable
from operator import add
from typing import NamedTuple

#: What one message costs in memory beside its payload: a bytes object's header and the list slot it stands in.
MESSAGE_OVERHEAD_BYTES = 41
#: The same of one that came back.
RECORD_OVERHEAD_BYTES = 3 * MESSAGE_OVERHEAD_BYTES


class Chunk:
    """The messages of one commit of one partition, in the order of their sequence numbers.

    Args:
      first_seq: the sequence number of the first message.
      committed_at_ms: when they were committed.
      payloads: the messages.
      attributes: of each message, as `core.attributes` encodes them; None when no message has any.
      log_bytes: of all payloads and attributes of the log up to the end of this chunk; 0 where an old store does not
        tell.
    """

    __slots__ = ("attributes", "committed_at_ms", "first_seq", "log_bytes", "payloads", "size_bytes")

    def __init__(
        self,
        first_seq: int,
        committed_at_ms: int,
        payloads: list[bytes],
        log_bytes: int = 0,
        attributes: list[bytes] | None = None,
    ) -> None:
        self.first_seq = first_seq
        self.committed_at_ms = committed_at_ms
        self.payloads = payloads
        self.attributes = attributes
        self.log_bytes = log_bytes
        self.size_bytes = sum(map(len, payloads)) + MESSAGE_OVERHEAD_BYTES * len(payloads)
        if attributes is not None:
            self.size_bytes += sum(map(len, attributes))

    @property
    def content_bytes(self) -> int:
        """How long the payloads and the attributes are together."""
        return self.size_bytes - MESSAGE_OVERHEAD_BYTES * len(self.payloads)

    def sizes(self) -> Iterable[int]:
        """How long payload and attributes of each message are together."""
        lengths = map(len, self.payloads)
        return lengths if self.attributes is None else map(add, lengths, map(len, self.attributes))

    @property
    def end_seq(self) -> int:
        """The sequence number after the last message."""
        return self.first_seq + len(self.payloads)


class Counts(NamedTuple):
    """How often a message came back, by cause; all 0 for one that never did."""

    nacks: int = 0
    backs: int = 0
    dacks: int = 0
    timeouts: int = 0
    disconnects: int = 0

    def plus(self, cause: str) -> "Counts":
        """Return the counts after one more return for `cause`, the name of a field, or empty: nothing is counted."""
        return tuple.__new__(Counts, map(add, self, _ONE_MORE[cause])) if cause else self  # a third of `_replace`

    def nonzero(self) -> list[str | int]:
        """Return causes and how often each happened, one after the other, without those that never did."""
        return [word for cause, count in self._asdict().items() if count for word in (cause, count)]


NEVER_RETURNED = Counts()
_ONE_MORE = {cause: Counts(**{cause: 1}) for cause in Counts._fields}


class Record(NamedTuple):
    """A message that came back and waits outside its chunk."""

    seq: int
    published_at_ms: int
    counts: Counts
    payload: bytes
    attributes: bytes = b""

    @property
    def content_bytes(self) -> int:
        """How long payload and attributes are together."""
        return len(self.payload) + len(self.attributes)

    @property
    def size_bytes(self) -> int:
        """Its cost in memory."""
        return len(self.payload) + len(self.attributes) + RECORD_OVERHEAD_BYTES
