"""What is known of requests and messages from what was asked and answered: never more than that.

    Op        asked ─▶ open ─▶ ok | refused | unknown            a request
    Message   as sure as its publish: there, or perhaps there, or not there
    Share     a message as one group sees it: perhaps held, perhaps ended by some request, and how sure that is

A settle that was answered is in force for as long as the broker runs. After a crash it is only sure when a commit that
was begun later has been confirmed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

DEFAULT = b"default"


class Outcome(StrEnum):
    """What became of a request."""

    OPEN = "open"
    OK = "ok"
    REFUSED = "refused"  # nothing was done
    UNKNOWN = "unknown"


@dataclass(eq=False)
class Op:
    """One request; `index` and `ok_index` are places in the order of all that was asked and answered.

    `exists` is set for a publish of unknown outcome when something of it has shown up. `shares` are those of the
    receipts that it settles, None for one that is over. `then` is called when it has been answered, or will never be
    know.
    """

    text: str
    epoch: int
    index: int
    asked_ms: int
    asked_seconds: float
    outcome: Outcome = Outcome.OPEN
    ok_index: int = -1
    answered_ms: int = -1
    exists: bool = False
    is_durable_at_once: bool = False
    is_seek: bool = False
    is_front: bool = False
    messages: "list[Message]" = field(default_factory=list)
    shares: "list[Share | None]" = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)

    @property
    def is_replacing(self) -> bool:
        """Whether it publishes a message that replaces the one with its unique key."""
        return any(message.wishes.is_replacing for message in self.messages)


@dataclass(frozen=True)
class Wishes:
    """The options of a publish, as far as they say what must hold."""

    delay_ms: int = 0
    at_ms: int = 0
    ttl_ms: int | None = None
    key: bytes = b""
    dedup: bytes = b""
    digest: bytes = b""
    unique: bytes = b""
    is_replacing: bool = False
    is_batch: bool = False
    is_request: bool = False


@dataclass(eq=False)
class Hold:
    """A lease, which ends by itself no earlier than at `until_seconds`."""

    epoch: int
    until_seconds: float
    member: bytes = b""


@dataclass(eq=False)
class Share:
    """A message as a group sees it.

    Attributes:
      ends: requests that may have ended it.
      is_doubtful: something else may have ended it.
      may_have_come: a reply that was lost may have handed it out, and ended it.
      hold: the lease that a client has for certain.
      reject: the last rejection that was asked for; `reasons` are those of all.
      log_id: the id at the last delivery, with its topic; `receipt` is the last one.
      out_epoch, out_index: the run of the broker in which it came last, and when.
      front_index: the index since which it has been at the front for certain; -1: it is not there.
      handout_count: how often it came; `is_miscounted` if the broker may have counted more.
    """

    message: "Message"
    group: bytes
    ends: list[Op] = field(default_factory=list)
    is_doubtful: bool = False
    may_have_come: bool = False
    hold: Hold | None = None
    reject: Op | None = None
    reasons: set[bytes] = field(default_factory=set)
    log_id: tuple[bytes, bytes] | None = None
    receipt: bytes = b""
    member: bytes = b""
    out_epoch: int = -1
    out_index: int = -1
    front_index: int = -1
    handout_count: int = 0
    is_miscounted: bool = False


@dataclass(eq=False)
class Message:
    """A message that was to be published; payloads are never used twice.

    `may_move`: it may have become a dead letter, or come back from there. `id` is what its publish was answered.
    """

    payload: bytes
    topic: bytes
    op: Op
    wishes: Wishes = Wishes()
    id: bytes = b""
    may_move: bool = False
    shares: dict[bytes, Share] = field(default_factory=dict)

    def share(self, group: bytes) -> Share:
        """Return that of a group of which nothing is sure so far."""
        if group not in self.shares:
            self.shares[group] = Share(self, group, is_doubtful=True)
        return self.shares[group]

    @property
    def is_published(self) -> bool:
        """Whether it was there for certain."""
        return self.op.outcome is Outcome.OK or self.op.exists

    @property
    def due_at_ms(self) -> int:
        """When it is due at the earliest."""
        return max(self.op.asked_ms + self.wishes.delay_ms, self.wishes.at_ms)

    def __str__(self) -> str:
        return f"{self.payload!r} {self.id!r} of {self.topic!r} by {self.op.text} ({self.op.outcome})"
