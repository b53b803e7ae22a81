"""The acts of a transaction, and what became of it.

    Publish, PublishWith, PublishBatch      as the methods of `Publisher` with these names
    Settle                                  as the methods of `Leases`, by receipt

Acts are values that the protocols parse; nothing is looked up until the transaction is carried out.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from miniqueue.broker.commit.journal import Accepted, Commit, Published
from miniqueue.core.options.batch import BatchOptions
from miniqueue.core.options.publish import PublishOptions
from miniqueue.core.options.settle import PLAIN_NACK, NackOptions
from miniqueue.errors import MiniqueueError
from miniqueue.errors.requests import SchemaError


class Publish(NamedTuple):
    """Add messages without options to a topic."""

    topic: bytes
    payloads: list[bytes]


class PublishWith(NamedTuple):
    """Add one message with options to a topic."""

    topic: bytes
    payload: bytes
    options: PublishOptions


class PublishBatch(NamedTuple):
    """Add messages to a topic under one dedup id, b"" for none."""

    topic: bytes
    payloads: list[bytes]
    dedup_id: bytes
    each: BatchOptions


class Way(Enum):
    """What settles a message, or extends its lease."""

    ACK = "ack"
    NACK = "nack"
    BACK = "back"
    DACK = "dack"
    REJECT = "reject"
    EXTEND = "extend"


class Settle(NamedTuple):
    """Settle leased messages of a topic by their receipts, or extend their leases.

    Attributes:
      topic: the topic.
      receipts: at least one receipt.
      way: what happens to the messages.
      seconds: the delay of DACK; of EXTEND, the new duration of the leases.
      reason: the reason of REJECT.
      nack: the options of NACK.
      is_synced: whether the transaction must be on the disk when it is answered, whatever the store's sync mode.
    """

    topic: bytes
    receipts: Sequence[bytes]
    way: Way
    seconds: float = 0.0
    reason: bytes = b""
    nack: NackOptions = PLAIN_NACK
    is_synced: bool = False


Act: TypeAlias = Publish | PublishWith | PublishBatch | Settle
#: What became of a publish; None for a settle, all receipts of which were settled.
Outcome: TypeAlias = Published | Accepted | None


class Executed(NamedTuple):
    """A transaction that was carried out; it is durable when `commit` is done.

    Attributes:
      commit: the commit that contains all acts.
      outcomes: what became of each act.
      size_bytes: total size of the payloads and attributes that the commit writes.
    """

    commit: Commit
    outcomes: list[Outcome]
    size_bytes: int


class Refused(NamedTuple):
    """A transaction of which nothing was done.

    Attributes:
      act: the index of the first act that is known to be impossible.
      message: the index of the message in this act; 0 if the act settles.
      error: the error that the act raises if it is carried out alone.
    """

    act: int
    message: int
    error: MiniqueueError

    def error_of_message(self) -> MiniqueueError:
        """Return the error without the index of the message, for replies that contain it anyway."""
        return SchemaError(self.error.problem) if isinstance(self.error, SchemaError) else self.error
