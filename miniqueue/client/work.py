"""What a worker does with a message, without threads, tasks or sockets: the common half of both workers.

received ─▶ in hand ─▶ handled ─▶ settled       return ─▶ ACK    raise Delay(5) ─▶ DACK 5
              │  ▲                              raise  ─▶ NACK   raise Reject("why") ─▶ REJECT
              ▼  │ every third of the lease
             EXTEND
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from miniqueue.client.calls import answers
from miniqueue.client.calls import messages as message_calls
from miniqueue.client.calls.call import Call
from miniqueue.client.calls.values import Message
from miniqueue.errors import RequestError

log = logging.getLogger("miniqueue.client")

#: Pause of a worker after a failed receive: the broker cannot be reached, or does not accept commands now.
PAUSE_SECONDS: Final = 1.0
#: Extensions in the duration of a lease: if one of them comes too late for its turn, the lease still holds.
EXTENSIONS_PER_LEASE: Final = 3
#: Maximum interval between extensions of a member: well within the broker's `session_seconds`, 10 by default.
MEMBER_SECONDS: Final = 3.0
MAX_REASON_BYTES: Final = 1024
#: Exceptions that a handler raises to end its program. `run` raises them again when everything in hand is settled.
EXITS: Final = (SystemExit, KeyboardInterrupt)
_REPLIED: Final = MappingProxyType({"GONE": [True], "NOLEASE": [False]})


class Outcome(Exception):  # noqa: N818 - a decision of the handler, not an error
    """The base class of exceptions by which a handler decides what happens to its message."""


class Reject(Outcome):
    """The message becomes a dead letter.

    Args:
      reason: kept with the dead letter; cut after 1 KiB.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")


class Delay(Outcome):
    """The message is redelivered after a delay.

    Args:
      seconds: the delay.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = float(seconds)  # raises here, in the handler, if it is not a number


def settlement(message: Message, result: object, error: BaseException | None) -> Call[list[bool]]:
    """Return the call that settles a message whose handler returned `result` or raised `error`."""
    match error:
        case None if message.reply_to and isinstance(result, bytes | str):
            return _reply(message, result)
        case None:
            return message_calls.ack(message.topic, message)
        case Delay():
            return message_calls.dack(message.topic, message, seconds=error.seconds)
        case Reject():
            return message_calls.reject(message.topic, message, reason=error.reason)
        case _:
            return message_calls.nack(message.topic, message)


def is_plain_ack(message: Message, result: object, error: BaseException | None) -> bool:
    """Whether `settlement` only acknowledges the message, so that one call can acknowledge several."""
    return error is None and not (message.reply_to and isinstance(result, bytes | str))


def _reply(message: Message, payload: bytes | str) -> Call[list[bool]]:
    """Return the call that replies; if the requester no longer waits, the message counts as settled."""
    call = message_calls.reply(message.topic, message, payload)
    return Call(call.words, answers.settled, call.is_repeatable, results_of_codes=_REPLIED)


@dataclass
class Work:
    """The messages that a worker has in hand, and its next calls.

    Attributes:
      topic: the topic of the messages.
      group: the group to read as; None: the default group.
      concurrency: maximum number of messages in hand.
      lease_seconds: how long each message is leased; the lease is extended while the message is in hand.
      poll_seconds: how long a receive waits; a stop with nothing in hand can take this long.
      member: the member of the group; None: the worker competes with other consumers.
      in_hand: the messages in hand, by receipt.
    """

    topic: str
    group: str | None = None
    concurrency: int = 1
    lease_seconds: float = 30.0
    poll_seconds: float = 1.0
    member: str | None = None
    in_hand: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the concurrency; raises RequestError."""
        if not 0 < self.concurrency <= message_calls.MAX_AT_ONCE:
            raise RequestError(f"invalid concurrency: {self.concurrency}; must be 1 to {message_calls.MAX_AT_ONCE}")

    @property
    def free_count(self) -> int:
        """Number of messages that can still be taken in hand."""
        return self.concurrency - len(self.in_hand)

    @property
    def extend_every_seconds(self) -> float:
        """Interval between extensions; for a member short enough that its session does not expire."""
        interval_seconds = self.lease_seconds / EXTENSIONS_PER_LEASE
        return interval_seconds if self.member is None else min(interval_seconds, MEMBER_SECONDS)

    def next_receive(self) -> Call[list[Message]]:
        """Return the call that receives at most `free_count` messages."""
        return message_calls.receive(
            self.topic,
            group=self.group,
            member=self.member,
            count=self.free_count,
            wait_seconds=self.poll_seconds,
            lease_seconds=self.lease_seconds,
        )

    def begin(self, message: Message) -> None:
        """Take a message in hand."""
        self.in_hand[message.receipt] = message

    def end(self, message: Message) -> None:
        """Drop a message that is settled, or that is no longer worked on."""
        self.in_hand.pop(message.receipt, None)

    def extension(self) -> Call[list[bool]] | None:
        """Return the call that extends the leases of all messages in hand; None if there are none."""
        if not self.in_hand:
            return None
        return message_calls.extend(self.topic, *self.in_hand, seconds=self.lease_seconds)


def tell_failure(message: Message, error: BaseException | None) -> None:
    """Log that a handler failed; an `Outcome` is a decision and is not logged."""
    if error is not None and not isinstance(error, Outcome):
        log.warning("message %s of %s failed: %r", message.id, message.topic, error, exc_info=error)


def tell_settled(messages: Sequence[Message], results: list[bool]) -> None:
    """Log the messages whose leases expired before they were settled."""
    for message, is_settled in zip(messages, results, strict=True):
        if not is_settled:
            log.warning("message %s of %s: its lease was over before it was settled", message.id, message.topic)


def tell_unsettled(messages: Sequence[Message], error: Exception) -> None:
    """Log that messages could not be settled: by a ClientError, or by a reply that cannot be encoded as UTF-8."""
    for message in messages:
        log.warning("message %s of %s could not be settled and comes again: %s", message.id, message.topic, error)
