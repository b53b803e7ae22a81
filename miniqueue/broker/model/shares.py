"""Shares: how much of each pool one user may have, so that no user can empty it; and the quotas of users.

    pool              size                whose use counts
    topics            -max-topics         the owner of the topic
    partitions        -max-partitions     the owner of the topic
    dedup ids         -max-dedup-ids      the owner of the topic
    waiting requests  10,000              the user who requests
    connections       -max-connections    the user who has authenticated on it
    bytes             unlimited           the owner of the topic

A user may have at most three quarters of each pool, or less if a quota says so. A broker without users has no shares.
Topics without an owner count as those of one more user, whose name is empty. Memory is shared in the same way by its
accounts (`broker.runtime.accounts`), and so are leases, which need memory and nothing else.

Messages a second have no pool, only a quota. A user who publishes more is refused until the average since the last
pause is the quota again; up to a second's worth may come at once.

Shares keep no counts, except of what they limit by rate: each part of the broker counts its pool. Quotas also
count what a user has in other shards, as it was a moment ago; pools are of one shard, which has its part of them.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from miniqueue.broker.model.limits import Limit, LimitCounts
from miniqueue.broker.runtime.accounts import USER_PART, Memory, user_of
from miniqueue.broker.runtime.clock import Clock
from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.core.settings.quotas import NO_QUOTAS, Quotas
from miniqueue.errors import RateLimitError, ShareLimitError

#: How far messages may be ahead of an even pace, the next message included.
BURST_SECONDS: Final = 1.0
#: What is lost when intervals are added up.
_ROUNDING_SECONDS: Final = 1e-6

#: Returns how much of a pool a user has; with None, how much all have.
Gauge = Callable[[str | None], int]


class Pool(StrEnum):
    """What users share; each has the name that errors and USAGE show."""

    TOPICS = "topics"
    PARTITIONS = "partitions"
    BYTES = "bytes"
    CONNECTIONS = "connections"
    REQUESTS = "requests"
    DEDUP_IDS = "dedup_ids"
    TASKS = "tasks"


class Held(NamedTuple):
    """What a user with quotas has in one shard, or in several together."""

    topics: int = 0
    bytes: int = 0
    connections: int = 0
    messages_per_second: int = 0


NOTHING_HELD: Final = Held()


class _Measure(NamedTuple):
    """The size of a pool, 0 for unlimited, what sets it, and how much of it is used."""

    size: int
    setting: str
    gauge: Gauge


#: The quota of each pool that has one.
_QUOTAS: Final[Mapping[Pool, str]] = {
    Pool.TOPICS: "max_topics",
    Pool.BYTES: "max_bytes",
    Pool.CONNECTIONS: "max_connections",
}


_OF_QUOTAS: Final = frozenset(_QUOTAS.values())


class Shares:
    """Limits what users have of each pool.

    Args:
      counts: counts refusals.
      memory: the accounts of memory, which obey the quotas, too.
      clock: measures rates.
      has_users: whether clients authenticate, so that no user may have everything.

    Attributes:
      rates: the users with a quota of messages a second.
      held_elsewhere: what users with quotas have in other shards, by name.
    """

    def __init__(self, counts: LimitCounts, memory: Memory, clock: Clock, *, has_users: bool) -> None:
        self._counts = counts
        self._clock = clock
        self._has_users = has_users
        self._pools: dict[Pool, _Measure] = {}
        self._quotas: Mapping[str, Quotas] = {}
        self._held_bytes: dict[str, int] = {}  # bytes of owners with a quota; never too low
        self._counted: set[str] = set()  # the owners whose bytes are exact
        self.rates: dict[str, MessageRate] = {}
        self.held_elsewhere: Mapping[str, Held] = {}
        memory.quota = lambda user: self.quotas_of(user).max_memory_bytes

    def measure(self, pool: Pool, gauge: Gauge, size: int = 0, setting: str = "") -> None:
        """Share a pool of a size, 0 for unlimited, that `setting` sets; `gauge` returns how much of it is used."""
        self._pools[pool] = _Measure(size, setting, gauge)

    def set_quotas(self, quotas: Mapping[str, Quotas]) -> None:
        """Replace the quotas of all users, `NO_QUOTAS` for those without; what a user already has stays."""
        self._quotas = quotas
        self._held_bytes.clear()
        self._counted.clear()
        limits = {user: limit for user, each in quotas.items() if (limit := each.max_messages_per_second)}
        kept = {user: rate for user, rate in self.rates.items() if rate.limit == limits.get(user)}
        now = self._clock.monotonic()
        self.rates = {user: kept.get(user) or MessageRate(user, limit, now) for user, limit in limits.items()}

    @property
    def users(self) -> Iterable[str]:
        """The names of the users, with or without quotas."""
        return self._quotas

    def quotas_of(self, user: str) -> Quotas:
        """Return the quotas of a user."""
        return self._quotas.get(user, NO_QUOTAS)

    def used(self, pool: Pool, user: str | None) -> int:
        """Return how much of a pool a user has; with None, how much all have."""
        return self._pools[pool].gauge(user)

    def limit_of(self, pool: Pool, user: str | None) -> int | None:
        """Return how much of a pool a user may have; with None, its size. None if it is unlimited."""
        return self._limit(pool, user)[0]

    def admit(self, pool: Pool, user: str, count: int = 1) -> None:
        """Raise ShareLimitError if the user may not have `count` more of a pool."""
        limit, setting = self._limit(pool, user)
        held = self.used(pool, user)
        if setting in _OF_QUOTAS and user in self.held_elsewhere:
            held += getattr(self.held_elsewhere[user], pool.value)
        if limit is not None and held + count > limit:
            raise self._refusal(pool, user, limit, setting)

    def admit_bytes(self, owner: str | None, size_bytes: int) -> None:
        """Raise ShareLimitError if the topics of an owner may not hold so much more.

        What they hold is counted when it is first asked for, and again when what was added since then does not fit, so
        a publish far below the quota costs the same for any number of topics. After a refusal, it is counted again if
        something was added, or in the next second.
        """
        if not owner or (limit := self.quotas_of(owner).max_bytes) is None:
            return
        limit -= self.held_elsewhere.get(owner, NOTHING_HELD).bytes
        held_bytes = self._held_bytes.get(owner)
        if held_bytes is None or (held_bytes + size_bytes > limit and owner not in self._counted):
            held_bytes = self._held_bytes[owner] = self.used(Pool.BYTES, owner)
            self._counted.add(owner)
        if held_bytes + size_bytes > limit:
            raise self._refusal(Pool.BYTES, owner, *self._limit(Pool.BYTES, owner))
        self._held_bytes[owner] = held_bytes + size_bytes
        self._counted.discard(owner)

    def has_byte_quota(self, owner: str | None) -> bool:
        """Whether the bytes of an owner's topics are limited."""
        return bool(owner) and self.quotas_of(owner or "").max_bytes is not None

    def spend(self, message_count: int) -> None:
        """Count messages that the client that acts publishes; raise RateLimitError if they are too many."""
        rate = self.rates.get(user_of(CURRENT_ACTOR.get()))
        if rate is not None:
            try:
                elsewhere = self.held_elsewhere.get(rate.user, NOTHING_HELD).messages_per_second
                rate.spend(message_count, self._clock.monotonic(), elsewhere)
            except RateLimitError:
                self._counts.reached(Limit.SHARE)
                raise

    def held(self) -> dict[str, Held]:
        """Return what users with quotas have here, by name, unless it is nothing."""
        held = {}
        for user, quotas in self._quotas.items():
            if quotas == NO_QUOTAS:
                continue
            topics, size_bytes, connections = (
                self.used(pool, user) for pool in (Pool.TOPICS, Pool.BYTES, Pool.CONNECTIONS)
            )
            rate = self.rates.get(user)
            each = Held(topics, size_bytes, connections, 0 if rate is None else rate.per_second)
            if any(each):
                held[user] = each
        return held

    def tick(self) -> None:
        """Count the bytes of owners again before the next refusal, and measure rates; called once a second."""
        self._counted.clear()
        now = self._clock.monotonic()
        for rate in self.rates.values():
            rate.measure(now)

    def _limit(self, pool: Pool, user: str | None) -> tuple[int | None, str]:
        size, setting, _ = self._pools[pool]
        if user is None:
            return size or None, setting
        if not self._has_users:
            return None, ""
        quota: int | None = getattr(self.quotas_of(user), _QUOTAS[pool]) if pool in _QUOTAS else None
        share = max(1, int(size * USER_PART)) if size else None
        if quota is not None and (share is None or quota <= share):
            return quota, _QUOTAS[pool]
        return share, f"three quarters of {setting}"

    def _refusal(self, pool: Pool, user: str, limit: int | None, setting: str) -> ShareLimitError:
        self._counts.reached(Limit.SHARE)
        assert limit is not None
        whose = f"user {user}" if user else "topics without an owner"
        return ShareLimitError(whose, _NOUNS[pool], limit, setting)


#: What errors call a pool.
_NOUNS: Final[Mapping[Pool, str]] = {
    **{pool: pool.value for pool in Pool},
    Pool.REQUESTS: "waiting requests",
    Pool.DEDUP_IDS: "dedup ids",
}


class MessageRate:
    """The messages that a user publishes, and may publish in a second.

    Args:
      user: the name of the user.
      limit: how many messages a second the user may publish.
      now: the time, in seconds on the monotonic clock.

    Attributes:
      user: the name of the user.
      limit: how many messages a second the user may publish.
      per_second: how many were published in the last second that was measured.
    """

    __slots__ = ("_count", "_measured_at", "_next_at", "limit", "per_second", "user")

    def __init__(self, user: str, limit: int, now: float) -> None:
        self.user = user
        self.limit = limit
        self.per_second = 0
        self._next_at = 0.0  # when the next message would be due at an even pace
        self._count = 0
        self._measured_at = now

    def spend(self, count: int, now: float, elsewhere: int = 0) -> None:
        """Count messages; raise RateLimitError, and count none, if the first of them comes more than a second early.

        What the user publishes in other shards, `elsewhere` messages a second, is a part of the quota; at least one
        message a second is left for this one.
        The messages of one request are counted together, so that it can have more of them than the quota.
        """
        limit = max(1, self.limit - elsewhere)
        early_seconds = self._next_at + 1 / limit - now - BURST_SECONDS
        if early_seconds > _ROUNDING_SECONDS:
            raise RateLimitError(self.user, self.limit, early_seconds)
        self._next_at = max(self._next_at, now) + count / limit
        self._count += count

    def measure(self, now: float) -> None:
        """Measure the rate since the last measurement."""
        seconds = now - self._measured_at
        if seconds > 0:
            self.per_second = round(self._count / seconds)
            self._count, self._measured_at = 0, now
