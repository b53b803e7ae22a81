"""The copies that follow this broker, and how far behind each is.

A copy states its position with every request, so its progress is known without a state of the connection. A copy that
does not ask is remembered for an hour, while its lag grows; the names are random, and few can be remembered.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from miniqueue.broker import Broker
from miniqueue.errors import LimitReachedError, RequestError
from miniqueue.server.process.copy_lag import CopyLag
from miniqueue.server.process.metric_rows import MetricRow

#: Maximum number of copies that are remembered at a time.
MAX_FOLLOWERS = 4
#: How long a copy that does not ask is remembered; as long as the store keeps its history for it.
FORGET_SECONDS = 3600.0
_NAME = re.compile(r"[0-9a-f]{8}")


@dataclass(slots=True)
class Follower:
    """A copy that follows.

    Attributes:
      asked_at: time of its last request.
      change: number of the last change that it contains; 0 while the first content is copied.
      lag_bytes: size of the writes that it did not have at its last request.
      lag: the moment of which it is complete.
      request_count: number of its requests; only the last one is answered with writes.
      reading: held while writes are read for a reply.
    """

    asked_at: float
    change: int = 0
    lag_bytes: int = 0
    lag: CopyLag = field(default_factory=CopyLag)
    request_count: int = 0
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Request(NamedTuple):
    """A request of a copy for what comes next, and how many it had made with it."""

    follower: Follower
    number: int

    def check(self) -> None:
        """Raise RequestError if the copy has made another request since: it reads one reply at a time."""
        if self.follower.request_count != self.number:
            raise RequestError("a later request of this copy has replaced this one")


class Followers:
    """Remembers the copies that follow a broker.

    Args:
      broker: the broker that they follow.
      monotonic: returns the time in seconds.
    """

    def __init__(self, broker: Broker, monotonic: Callable[[], float]) -> None:
        self._broker = broker
        self._monotonic = monotonic
        self._by_name: dict[str, Follower] = {}

    def begin(self, name: str) -> None:
        """Note that a copy that was admitted begins."""
        self._by_name[name] = Follower(self._monotonic())

    def forget(self, name: str) -> None:
        """Forget a copy whose content has not arrived: the next attempt may have another name."""
        self._by_name.pop(name, None)

    def asked(self, name: str, change: int) -> "Request":
        """Note that a copy contains everything up to `change`, and wants more; raises as `admit`."""
        self.admit(name)
        now = self._monotonic()
        follower = self._by_name.setdefault(name, Follower(now))
        follower.asked_at, follower.change = now, change
        follower.lag.reach(change)
        follower.request_count += 1
        return Request(follower, follower.request_count)

    def answered(self, name: str, last_change: int, lag_bytes: int) -> None:
        """Note what a copy has to apply to contain everything of now."""
        if (follower := self._by_name.get(name)) is not None:
            follower.lag.aim(last_change, self._monotonic())
            follower.lag_bytes = lag_bytes

    def lags(self) -> Mapping[str, tuple[float | None, int]]:
        """Return how far each copy is behind, in seconds, which can be unknown, and bytes."""
        return dict(self._lags())

    def _lags(self) -> Iterator[tuple[str, tuple[float | None, int]]]:
        self._forget_silent()
        for name, follower in sorted(self._by_name.items()):
            is_complete = follower.change == self._broker.last_change
            seconds = 0.0 if is_complete else follower.lag.seconds(self._monotonic())
            yield name, (seconds, 0 if is_complete else follower.lag_bytes)

    def admit(self, name: str) -> None:
        """Raise RequestError for an invalid name, LimitReachedError if there are too many others."""
        if not _NAME.fullmatch(name):
            raise RequestError("invalid parameter follower; must be 8 hexadecimal digits")
        self._forget_silent()
        if name not in self._by_name and len(self._by_name) >= MAX_FOLLOWERS:
            raise LimitReachedError(f"{MAX_FOLLOWERS} copies follow already; one is forgotten after an hour of silence")

    def _forget_silent(self) -> None:
        forgotten = self._monotonic() - FORGET_SECONDS
        self._by_name = {name: each for name, each in self._by_name.items() if each.asked_at >= forgotten}


FOLLOWER_ROWS: tuple[MetricRow[Followers], ...] = (
    MetricRow(
        "follower_lag_seconds",
        "gauge",
        "How old the moment is of which a copy that follows is complete.",
        lambda followers: (
            {name: seconds for name, (seconds, _) in followers.lags().items() if seconds is not None} or None
        ),
        ("follower",),
        note="See [a copy that follows](operations.md#a-copy-that-follows).",
    ),
    MetricRow(
        "follower_lag_bytes",
        "gauge",
        "Size of the writes that a copy that follows lacked when it last asked, at most.",
        lambda followers: {name: size_bytes for name, (_, size_bytes) in followers.lags().items()} or None,
        ("follower",),
    ),
)
