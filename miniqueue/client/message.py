"""A message, as a consumer gets it and as a look shows it: values, and nothing that can be done with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from miniqueue.core.message import NEVER_RETURNED, Counts


class Origin(NamedTuple):
    """Where a dead letter was a message, and why it is one no more.

    Attributes:
      topic: its name.
      id: of the message there.
      published_at_ms: when it was first published.
      died_at_ms: when it was given up.
      reason: why; `max_deliveries`, or what the consumer said.
      counts: how often it had come back, by cause.
      group: that gave it up.
    """

    topic: str
    id: str
    published_at_ms: int
    died_at_ms: int
    reason: str
    counts: Counts = NEVER_RETURNED
    group: str = "default"


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    Attributes:
      topic: where it was received.
      id: `<partition>-<seq>`.
      payload: what was published.
      receipt: names this delivery when it is settled; "" when there is nothing to settle.
      published_at_ms: when it was committed, in ms since 1970.
      deliveries: how often it was handed out, this time included.
      counts: how often it came back, by cause.
      key: b"" for none.
      headers: names and values in the publisher's order; a name may be there more than once.
      expires_at_ms: when it is of no use any more; 0 for never.
      origin: of a dead letter.
      reply_to: who waits for a reply to it; "" when nobody has asked.
      only_for: the one group that gets it; "" for all.
      state: where it is; of one that was looked at.
      due_at_ms: when it is ready again; of a delayed one that was looked at.
      extra: what a newer broker tells besides, by name, as it came.
    """

    topic: str
    id: str
    payload: bytes
    receipt: str = ""
    published_at_ms: int = 0
    deliveries: int = 0
    counts: Counts = NEVER_RETURNED
    key: bytes = b""
    headers: tuple[tuple[str, bytes], ...] = ()
    expires_at_ms: int = 0
    origin: Origin | None = None
    reply_to: str = ""
    only_for: str = ""
    state: str = ""
    due_at_ms: int = 0
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """The payload as UTF-8; raises UnicodeDecodeError."""
        return self.payload.decode()

    @property
    def published_at(self) -> datetime:
        """When it was committed, in UTC."""
        return datetime.fromtimestamp(self.published_at_ms / 1000, UTC)

    def header(self, name: str, default: str = "") -> str:
        """Return the first value of a header, as UTF-8; names are compared as they are."""
        return next((value.decode("utf-8", "replace") for known, value in self.headers if known == name), default)
