"""The shard whose parts of a spread topic a RECEIVE asks first: in the long run, the parts of all shards are served.

    consumers at door 0 take 300/s, at door 1 300/s ─▶ each begins with its own parts, which takes no detour
    consumers at door 0 take 300/s, at door 1 none  ─▶ half of the requests at door 0 begin in shard 1

The doors tell each other how much their clients of each group ask for, with the question whether a shard answers; from
that, each computes the same, as for messages without keys (`part_choice`). Before a door knows anything of a group,
most requests begin with the own parts, and a few with those of any shard. Some always do, since what is asked for is
not always what is there.
"""

from collections.abc import Mapping
from itertools import islice
from random import Random
from typing import Final

from miniqueue.core.settings.placing import Placing
from miniqueue.server.shards.links.part_choice import KEPT, MAX_REPORTED, weights_of

#: One request in so many begins at any shard; and before anything is known of the group.
ANY_FIRST: Final = 16
ANY_FIRST_UNKNOWN: Final = 4
_SEPARATOR: Final = b"\x1f"


class TakeChoice:
    """Chooses for the clients of one process.

    Args:
      placing: the place of this process among the shards.
      chance: decides which requests begin elsewhere.
    """

    def __init__(self, placing: Placing, chance: Random) -> None:
        self._placing = placing
        self._chance = chance
        self._readers: dict[bytes, _Reader] = {}
        self._reports: dict[int, Mapping[str, int]] = {}

    def first(self, topic: bytes, group: bytes, part_count: int, message_count: int) -> int:
        """Return the shard that a request for so many messages asks first."""
        key = topic + _SEPARATOR + group
        reader = self._readers.get(key)
        if reader is None or reader.part_count != part_count:
            reader = _Reader(self._placing, topic, part_count)
            if len(self._readers) < MAX_REPORTED:
                self._readers[key] = reader
        reader.asked += message_count
        weights, chance = reader.weights, self._chance
        if not chance.randrange(ANY_FIRST if weights else ANY_FIRST_UNKNOWN):
            return chance.randrange(self._placing.shard_count)
        if not weights or weights[self._placing.number] >= 1:
            return self._placing.number
        return chance.choices(range(len(weights)), weights)[0]

    def report(self) -> dict[str, int]:
        """Return how many messages the clients of this process have asked for, of which some have lately."""
        return {key.decode("latin-1"): reader.asked for key, reader in islice(self._readers.items(), MAX_REPORTED)}

    def take(self, shard: int, report: Mapping[str, int]) -> None:
        """Take the report of another shard."""
        self._reports[shard] = report

    def follow(self) -> None:
        """Decide where requests begin from now on; called every `part_choice.PERIOD_SECONDS`."""
        for key, reader in [*self._readers.items()]:
            name = key.decode("latin-1")
            asked = [self._reports.get(shard, {}).get(name, 0) for shard in range(self._placing.shard_count)]
            if not reader.follow(asked):
                del self._readers[key]


class _Reader:
    """The clients of one group of a topic.

    Attributes:
      part_count: the number of parts.
      asked: how many messages those of this process have asked for.
      weights: the share of each shard in the requests of this process; empty while nothing is known.
    """

    def __init__(self, placing: Placing, topic: bytes, part_count: int) -> None:
        home, shard_count = placing.shard_of(topic), placing.shard_count
        self.part_count = part_count
        self.asked = 0
        self.weights: list[float] = []
        self._own = placing.number
        self._even = [
            len(range((shard - home) % shard_count, part_count, shard_count)) / part_count
            for shard in range(shard_count)
        ]
        self._asked_before = 0
        self._before: list[int] = []
        self._lately = [0.0] * shard_count

    def follow(self, asked: list[int]) -> bool:
        """Decide again, by what all processes were asked for; return whether that was anything here lately."""
        asked[self._own], self._asked_before = self._asked_before, self.asked  # about as old as what the others report
        before, self._before = self._before or asked, asked
        new = [now - then if now >= then else now for now, then in zip(asked, before, strict=True)]
        self._lately = [KEPT * lately + each for lately, each in zip(self._lately, new, strict=True)]
        if self._lately[self._own] >= 1:
            self.weights = weights_of(self._own, self._lately, self._even)
        return self._lately[self._own] >= 1 or self.asked > asked[self._own] or before is asked
