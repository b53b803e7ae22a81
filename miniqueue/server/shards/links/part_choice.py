"""Which parts of a spread topic get messages without keys: in the long run, all get as many.

    clients at door 0: 300/s   at door 1: 100/s   at door 2: 200/s      each shard is to get 200/s
      └ 200/s stay, 100/s go to shard 1   └ all stay   └ all stay

What stays takes no detour. The doors tell each other what their clients publish, with the question whether a shard
answers; from that, each computes the same. Before a door knows anything, and for topics that it does not report, it
serves all parts in turn. The choice counts messages, so that batches of any size are balanced.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from miniqueue.core.settings.placing import Placing

#: How often the choice follows what the doors report.
PERIOD_SECONDS: Final = 0.5
#: The part of what a door has accepted before that still counts after a period: half of it after three seconds.
KEPT: Final = 0.9
#: Maximum number of topics that a door reports.
MAX_REPORTED: Final = 1_000


class PartChoice:
    """Chooses parts for the clients of one process.

    Args:
      placing: the place of this process among the shards.
    """

    def __init__(self, placing: Placing) -> None:
        self._placing = placing
        self._topics: dict[bytes, _Topic] = {}
        self._reports: dict[int, Mapping[str, int]] = {}

    def choose(self, topic: bytes, part_count: int, message_count: int) -> int:
        """Return the number of the part that gets messages which come together."""
        chosen = self._topics.get(topic)
        if chosen is None or chosen.part_count != part_count:
            chosen = self._topics[topic] = _Topic(self._placing, topic, part_count)
        return chosen.choose(message_count)

    def add(self, topic: bytes, number: int, message_count: int) -> None:
        """Count messages that get the part of others before them, with which they come together."""
        if (chosen := self._topics.get(topic)) is not None:
            chosen.add(number, message_count)

    def report(self) -> dict[str, int]:
        """Return how many messages this process has accepted for each topic, of which it has accepted some lately."""
        return {name.decode(): topic.accepted for name, topic in self._reported()}

    def take(self, shard: int, report: Mapping[str, int]) -> None:
        """Take the report of another shard."""
        self._reports[shard] = report

    def follow(self) -> None:
        """Decide what stays in this shard from now on; called every `PERIOD_SECONDS`."""
        for name, topic in [*self._reported()]:
            key = name.decode()
            accepted = [self._reports.get(shard, {}).get(key, 0) for shard in range(self._placing.shard_count)]
            accepted[self._placing.number] = topic.accepted_before  # about as old as what the others report
            topic.accepted_before = topic.accepted
            if not topic.follow(accepted):
                del self._topics[name]

    def _reported(self) -> "Iterator[tuple[bytes, _Topic]]":
        return islice(self._topics.items(), MAX_REPORTED)


class _Topic:
    """The choice for one topic.

    Attributes:
      accepted: how many messages without keys this process has accepted.
      accepted_before: how many they were a period ago.
    """

    def __init__(self, placing: Placing, topic: bytes, part_count: int) -> None:
        home, shard_count = placing.shard_of(topic), placing.shard_count
        self.part_count = part_count
        self.accepted = self.accepted_before = 0
        self._own, self._home = placing.number, home
        self._parts = [range((shard - home) % shard_count, part_count, shard_count) for shard in range(shard_count)]
        self._turns = [0] * shard_count
        self._even = [len(parts) / part_count for parts in self._parts]
        self._weights = self._even  # the share of each shard in what this process accepts
        self._due = [0.0] * shard_count  # how many messages a shard should have got, and has not
        self._before: list[int] | None = None
        self._lately = [0.0] * shard_count

    def choose(self, message_count: int) -> int:
        """Return the number of the part."""
        shard = self._own
        if self._weights[shard] < 1:
            due = [due + weight * message_count for due, weight in zip(self._due, self._weights, strict=True)]
            shard = due.index(max(due))
        parts, turn = self._parts[shard], self._turns[shard]
        self._turns[shard] = turn + 1
        number = parts[turn % len(parts)]
        self.add(number, message_count)
        return number

    def add(self, number: int, message_count: int) -> None:
        """Count messages that go to a part."""
        self.accepted += message_count
        if self._weights[self._own] < 1:
            self._due = [due + weight * message_count for due, weight in zip(self._due, self._weights, strict=True)]
            self._due[(self._home + number) % len(self._due)] -= message_count

    def follow(self, accepted: list[int]) -> bool:
        """Decide again, by the numbers of messages that all processes have accepted; return whether there are any."""
        before = self._before or accepted
        new = [now - then if now >= then else now for now, then in zip(accepted, before, strict=True)]
        self._before = accepted
        self._lately = [KEPT * lately + each for lately, each in zip(self._lately, new, strict=True)]
        self._weights = _weights(self._own, self._lately, self._even)
        return sum(self._lately) >= 1 or before is accepted


def _weights(own: int, lately: list[float], even: list[float]) -> list[float]:
    """Return which part of what this process accepts each shard gets, so that all together get even parts."""
    if lately[own] < 1:
        return even
    total = sum(lately)
    lacking = [max(0.0, share * total - each) for share, each in zip(even, lately, strict=True)]
    surplus = max(0.0, lately[own] - even[own] * total)
    if surplus == 0:
        return [float(shard == own) for shard in range(len(even))]
    weights = [surplus / lately[own] * each / sum(lacking) for each in lacking]
    weights[own] = 1 - surplus / lately[own]
    return weights
