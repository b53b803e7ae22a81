"""What happened to a message: the values of a TRACE reply, and how to parse them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from miniqueue_client.calls.answers import plain, text
from miniqueue_client.calls.call import Reply

_TEXTS: Final = ("event", "topic", "id", "group", "by", "member", "receipt", "reason")
_MOVES: Final = {"from": "came_from", "to": "went_to"}


class TracePosition(NamedTuple):
    """Where a message is or was: the name of the topic, and the message's id there."""

    topic: str
    id: str


@dataclass(frozen=True, slots=True)
class Step:
    """An event in the life of a message; attributes that do not apply are empty.

    Attributes:
      event: the event, such as `published` or `acknowledged`; docs/protocol.md lists all.
      at_ms: the time, in ms since 1970.
      topic: the topic of the message at that time.
      id: the id of the message in that topic.
      group: the group that caused the event.
      by: the user or client that published it, received it, or caused the event.
      member: the member of the group that received it.
      receipt: the receipt of the delivery.
      reason: the reason.
      came_from: the position that the message was moved from.
      went_to: the position that the message was moved to.
      extra: attributes that only newer brokers send, by name, as received.
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
    came_from: TracePosition | None = None
    went_to: TracePosition | None = None
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def at(self) -> datetime:
        """When it happened, in UTC."""
        return datetime.fromtimestamp(self.at_ms / 1000, timezone.utc)


def steps(reply: Reply) -> list[Step]:
    """Return the events of a message, in order."""
    return [_step({text(name): value for name, value in item.items()}) for item in reply]


def _step(attributes: dict[str, Reply]) -> Step:
    values: dict[str, Any] = {name: text(attributes.pop(name)) for name in _TEXTS if name in attributes}
    values["at_ms"] = int(attributes.pop("at_ms"))
    values |= {name: _position(attributes.pop(word)) for word, name in _MOVES.items() if word in attributes}
    return Step(**values, extra={name: plain(value) for name, value in attributes.items()})


def _position(reply: Mapping[bytes, Reply]) -> TracePosition:
    return TracePosition(text(reply[b"topic"]), text(reply[b"id"]))
