"""What a worker does with a message, without threads, tasks or sockets: both kinds of worker stand on this.

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

from miniqueue.client import answers, message_calls
from miniqueue.client.call import Call
from miniqueue.client.message import Message
from miniqueue.errors import RequestError

log = logging.getLogger("miniqueue.client")

#: How long a worker pauses when the broker cannot be reached, or asks it to come later.
PAUSE_SECONDS: Final = 1.0
#: How often leases are extended while they last: one that is late by a whole turn still holds.
EXTENSIONS_PER_LEASE: Final = 3
#: A member that works on something says so this often, well within the broker's `session_seconds`, 10 by default.
MEMBER_SECONDS: Final = 3.0
MAX_REASON_BYTES: Final = 1024
#: What a handler raises to end its program. `run` raises it when everything in hand is settled.
EXITS: Final = (SystemExit, KeyboardInterrupt)
_REPLIED: Final = MappingProxyType({"GONE": [True], "NOLEASE": [False]})


class Outcome(Exception):  # noqa: N818 - no error: what a handler decides about its message
    """What a handler raises to say what becomes of its message."""


class Reject(Outcome):
    """The message is given up: it becomes a dead letter.

    Args:
      reason: stays with the dead letter; of more than 1 KiB the beginning.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason.encode()[:MAX_REASON_BYTES].decode("utf-8", "ignore")


class Delay(Outcome):
    """The message is to come again, but not at once.

    Args:
      seconds: how long it waits.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again in {seconds} s")
        self.seconds = float(seconds)  # what is no number is the function's mistake, and told as that


def settlement(message: Message, result: object, error: BaseException | None) -> Call[list[bool]]:
    """Return the call that settles a message whose handler has returned `result`, or raised `error`."""
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
    """Tell whether `settlement` would acknowledge the message and nothing else, so that others may be with it."""
    return error is None and not (message.reply_to and isinstance(result, bytes | str))


def _reply(message: Message, payload: bytes | str) -> Call[list[bool]]:
    """Return the call that replies; who does not wait any more needs no reply."""
    call = message_calls.reply(message.topic, message, payload)
    return Call(call.words, answers.settled, call.is_repeatable, results_of_codes=_REPLIED)


@dataclass
class Work:
    """The messages that a worker has in hand, and what it asks for next.

    Attributes:
      topic: where they come from.
      group: who reads; None for the default group.
      concurrency: how many it works on at a time.
      lease_seconds: of each; extended while it is worked on.
      poll_seconds: how long a receive waits, and so how long a stop may take that finds nothing in hand.
      member: of the group; None to compete with others.
      in_hand: by receipt.
    """

    topic: str
    group: str | None = None
    concurrency: int = 1
    lease_seconds: float = 30.0
    poll_seconds: float = 1.0
    member: str | None = None
    in_hand: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the figures; raises RequestError."""
        if not 0 < self.concurrency <= message_calls.MAX_AT_ONCE:
            raise RequestError(f"a worker works on 1 to {message_calls.MAX_AT_ONCE} messages at a time")

    @property
    def free_count(self) -> int:
        """How many messages more it can take."""
        return self.concurrency - len(self.in_hand)

    @property
    def extend_every_seconds(self) -> float:
        """How often leases are to be extended; of a member also so often that it does not count as gone."""
        often = self.lease_seconds / EXTENSIONS_PER_LEASE
        return often if self.member is None else min(often, MEMBER_SECONDS)

    def next_receive(self) -> Call[list[Message]]:
        """Return the call for as many messages as there are hands free."""
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
        """Have a hand free again."""
        self.in_hand.pop(message.receipt, None)

    def extension(self) -> Call[list[bool]] | None:
        """Return the call that extends the leases of what is in hand; None when nothing is."""
        if not self.in_hand:
            return None
        return message_calls.extend(self.topic, *self.in_hand, seconds=self.lease_seconds)


def tell_failure(message: Message, error: BaseException | None) -> None:
    """Log that a handler failed; not what it decided."""
    if error is not None and not isinstance(error, Outcome):
        log.warning("message %s of %s failed: %r", message.id, message.topic, error, exc_info=error)


def tell_settled(messages: Sequence[Message], results: list[bool]) -> None:
    """Log which messages are somebody else's by now."""
    for message, is_settled in zip(messages, results, strict=True):
        if not is_settled:
            log.warning("message %s of %s: its lease was over before it was settled", message.id, message.topic)


def tell_unsettled(messages: Sequence[Message], error: Exception) -> None:
    """Log that messages could not be settled: by a ClientError, or since a reply, say, is no Unicode."""
    for message in messages:
        log.warning("message %s of %s could not be settled and comes again: %s", message.id, message.topic, error)
