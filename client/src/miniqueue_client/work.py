"""What a worker does with a message, without threads, tasks or sockets: the common half of both workers.

received ─▶ in hand ─▶ handled ─▶ settled       return ─▶ ACK    raise Delay(5) ─▶ DACK 5
              │  ▲                              raise  ─▶ NACK   raise Reject("why") ─▶ REJECT
              ▼  │ every third of the lease
             EXTEND
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final

from miniqueue_client.calls import answers
from miniqueue_client.calls import messages as message_calls
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.outcomes import Delay, Outcome, Reject
from miniqueue_client.calls.values import Message
from miniqueue_client.errors import RequestError

log = logging.getLogger("miniqueue_client")

#: Pause of a worker after a failed receive: the broker cannot be reached, or does not accept commands now.
PAUSE_SECONDS: Final = 1.0
#: Extensions in the duration of a lease: if one of them comes too late for its turn, the lease still holds.
EXTENSIONS_PER_LEASE: Final = 3
#: Maximum interval between extensions of a member: well within the broker's `session_seconds`, 10 by default.
MEMBER_SECONDS: Final = 3.0
#: Exceptions that a handler raises to end its program. `run` raises them again when everything in hand is settled.
EXITS: Final = (SystemExit, KeyboardInterrupt)
_REPLIED: Final = MappingProxyType({"GONE": [True], "NOLEASE": [False]})


def settlement(
    message: Message, result: object, error: BaseException | None, *, sync: bool = False
) -> Call[list[bool]]:
    """Return the call that settles a message whose handler returned `result` or raised `error`.

    With `sync`, it waits until the settle is on the disk, unless it is a reply.
    """
    match error:
        case None if message.reply_to and isinstance(result, bytes | str):
            return _reply(message, result)
        case None:
            return message_calls.ack(message.topic, message, sync=sync)
        case Delay():
            return message_calls.dack(message.topic, message, seconds=error.seconds, sync=sync)
        case Reject():
            return message_calls.reject(message.topic, message, reason=error.reason, sync=sync)
        case _:
            return message_calls.nack(message.topic, message, sync=sync)


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
      topic: the topic of the messages, or several.
      group: the group to read as; None: the default group.
      concurrency: maximum number of messages in hand.
      lease_seconds: how long each message is leased; the lease is extended while the message is in hand.
      poll_seconds: how long a receive waits; a stop with nothing in hand can take this long.
      member: the member of the group; None: the worker competes with other consumers.
      patterns: patterns of more topics, as `receive_any` has them.
      sync: whether each settle waits until it is on the disk.
      in_hand: the messages in hand, by receipt.
    """

    topic: str | Sequence[str]
    group: str | None = None
    concurrency: int = 1
    lease_seconds: float = 30.0
    poll_seconds: float = 1.0
    member: str | None = None
    patterns: Sequence[str] = ()
    sync: bool = False
    in_hand: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the concurrency; raises RequestError."""
        most = message_calls.MAX_AT_ONCE - self.sync  # SYNC is a word of its own
        if not 0 < self.concurrency <= most:
            raise RequestError(f"invalid concurrency: {self.concurrency}; must be 1 to {most}")

    @property
    def free_count(self) -> int:
        """Number of messages that can still be taken in hand."""
        return self.concurrency - len(self.in_hand)

    @property
    def extend_every_seconds(self) -> float:
        """Interval between extensions; for a member short enough that its session does not expire."""
        interval_seconds = self.lease_seconds / EXTENSIONS_PER_LEASE
        return interval_seconds if self.member is None else min(interval_seconds, MEMBER_SECONDS)

    @property
    def topics(self) -> Sequence[str]:
        """The topics that are named, not those that only fit a pattern."""
        return [self.topic] if isinstance(self.topic, str) else self.topic

    def next_receive(self) -> Call[list[Message]]:
        """Return the call that receives at most `free_count` messages."""
        receive = partial(message_calls.receive_any, *self.topics, patterns=self.patterns)
        if isinstance(self.topic, str) and not self.patterns:
            receive = partial(message_calls.receive, self.topic)
        return receive(
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

    def extensions(self) -> list[Call[list[bool]]]:
        """Return the calls that extend the leases of all messages in hand, one for each topic."""
        by_topic = messages_by_topic(self.in_hand.values())
        return [message_calls.extend(topic, *some, seconds=self.lease_seconds) for topic, some in by_topic.items()]


def messages_by_topic(messages: Iterable[Message]) -> dict[str, list[Message]]:
    """Return messages by their topics."""
    by_topic: dict[str, list[Message]] = {}
    for message in messages:
        by_topic.setdefault(message.topic, []).append(message)
    return by_topic


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
