"""What clients do and see, as a history: the events that they log, in the order in which they saw them.

    Invoke ──► Ok | Fail | Unknown          a publish or a settle, with an operation number of its own
    Deliver                                 a message has come to a client
    Gone                                    a client is about to leave; what it holds goes back
    Crash, Stop                             the broker was killed, or has stopped in good order
    Drained                                 a topic was read to its end, by one client

Message ids are numbers that are never used again, so each message is known whoever delivers it, and when.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """What a client asks for."""

    PUBLISH = "publish"
    ACK = "ack"
    NACK = "nack"
    BACK = "back"
    DACK = "dack"


@dataclass(frozen=True, slots=True)
class Invoke:
    """A request is about to be sent.

    `at` is in seconds; `delay_seconds` belongs to a DACK. `is_synced`: a settle is to be answered when it is durable.
    """

    op: int
    client: str
    act: Act
    topic: str
    ids: tuple[int, ...]
    at: float = 0.0
    delay_seconds: float = 0.0
    is_synced: bool = False


@dataclass(frozen=True, slots=True)
class Ok:
    """A request was answered: it is done. `seqs` are the places in the log, where a publish tells them."""

    op: int
    seqs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """A request was refused: nothing was done."""

    op: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """A request will never be answered, or was answered with "unknown"."""

    op: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """A message has come.

    Attributes:
      id: None when its bytes are none that were ever published.
      marks: how often it came back, by cause; None when the protocol does not tell.
      reader: the same for clients that read one after the other, each only when nothing is out that the one before
        was given; none for those who compete.
    """

    client: str
    topic: str
    id: int | None
    marks: Mapping[str, int] | None = None
    at: float = 0.0
    reader: str = ""


@dataclass(frozen=True, slots=True)
class Gone:
    """A client is about to close its connection."""

    client: str


@dataclass(frozen=True, slots=True)
class Crash:
    """The broker was killed; every client is gone."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The broker has stopped in good order: all that was answered is durable."""


@dataclass(frozen=True, slots=True)
class Drained:
    """Everything in a topic was delivered and acknowledged; `left` is how many the broker says there still are."""

    topic: str
    left: int = 0


Event = Invoke | Ok | Fail | Unknown | Deliver | Gone | Crash | Stop | Drained
