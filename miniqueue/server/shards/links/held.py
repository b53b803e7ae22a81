"""What users with quotas have in each shard: the shards tell each other, so that a quota holds over all of them.

    every half second, with the question whether a shard answers ─▶ {"ada": [topics, bytes, connections, messages/s]}

A quota can be exceeded by what was added within that time. What a shard has said is forgotten when it does not say it
again, as one that has ended holds no connections; its topics count again as soon as it is back.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any, Final

from miniqueue.broker.model.shares import NOTHING_HELD, Held, Shares

#: For so long, what a shard has said is true.
MAX_AGE_SECONDS: Final = 5.0


class HeldByShards:
    """Collects what the other shards say.

    Args:
      shares: the shares of this shard.
      monotonic: the clock, in seconds.
    """

    def __init__(self, shares: Shares, monotonic: Callable[[], float]) -> None:
        self._shares = shares
        self._monotonic = monotonic
        self._said: dict[str, tuple[float, dict[str, Held]]] = {}

    def own(self) -> dict[str, list[float]]:
        """Return what the others hear."""
        return {user: [*held] for user, held in self._shares.held().items()}

    def take(self, shard: str, said: Mapping[str, Sequence[Any]]) -> None:
        """Take what a shard says."""
        held = {user: Held(*amounts) for user, amounts in said.items()}
        now = self._monotonic()
        self._said[shard] = now, held
        together: dict[str, Held] = {}
        for at, by_user in self._said.values():
            if now - at < MAX_AGE_SECONDS:
                for user, each in by_user.items():
                    together[user] = Held(*map(add, together.get(user, NOTHING_HELD), each))
        self._shares.held_elsewhere = together
