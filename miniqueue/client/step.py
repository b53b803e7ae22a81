"""What happened to a message, as TRACE tells it: values, and how they are read from its reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from miniqueue.client.answers import plain, text
from miniqueue.client.call import Reply

_TEXTS: Final = ("event", "topic", "id", "group", "by", "member", "receipt", "reason")
_MOVES: Final = {"from": "came_from", "to": "went_to"}


class Place(NamedTuple):
    """Where a message is, or was: the name of a topic, and the id there."""

    topic: str
    id: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to a message; what does not apply is empty.

    Attributes:
      event: what it was, such as `published` or `acknowledged`; docs/protocol.md has all.
      at_ms: when, in ms since 1970.
      topic: where the message was then.
      id: of the message there.
      group: whose doing it was.
      by: who published it, or to whom it was delivered, or who did it.
      member: of the group, to whom it was delivered.
      receipt: of the delivery.
      reason: why.
      came_from: from where it came.
      went_to: where it went.
      extra: what a newer broker tells besides, by name, as it came.
    """

    event: str
    at_ms: int
    topic: str
    id: str
    group: str = ""
    by: str = ""
    member: str = ""
    receipt: str = ""
    reason: str = ""
    came_from: Place | None = None
    went_to: Place | None = None
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def at(self) -> datetime:
        """When it happened, in UTC."""
        return datetime.fromtimestamp(self.at_ms / 1000, UTC)


def steps(reply: Reply) -> list[Step]:
    """Return what happened to a message, in order."""
    return [_step({text(name): value for name, value in one.items()}) for one in reply]


def _step(told: dict[str, Reply]) -> Step:
    values: dict[str, Any] = {name: text(told.pop(name)) for name in _TEXTS if name in told}
    values["at_ms"] = int(told.pop("at_ms"))
    values |= {name: _place(told.pop(word)) for word, name in _MOVES.items() if word in told}
    return Step(**values, extra={name: plain(value) for name, value in told.items()})


def _place(reply: Mapping[bytes, Reply]) -> Place:
    return Place(text(reply[b"topic"]), text(reply[b"id"]))
