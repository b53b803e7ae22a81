"""A schedule, as SCHEDULE GET and LIST tell it: values, and nothing that can be done with it."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is published over and over, and when next.

    Attributes:
      name: of the schedule.
      topic: where its messages go.
      next_at_ms: when the next one is due, in ms since 1970; 0 for never.
      cron: the rule; "" where it is `every_seconds`.
      zone: whose time the rule means.
      every_seconds: how far messages are apart; 0 where there is a rule.
      missed: what becomes of those that were due while the broker was down: `all`, `one`, `none`.
      payload: of each message; None in a list.
    """

    name: str
    topic: str
    next_at_ms: int
    cron: str = ""
    zone: str = ""
    every_seconds: float = 0.0
    missed: str = "all"
    payload: bytes | None = None

    @property
    def next_at(self) -> datetime:
        """When the next message is due, in UTC."""
        return datetime.fromtimestamp(self.next_at_ms / 1000, UTC)
