"""Which parts of a spread topic get messages without keys: in the long run, all get as many.

    clients at door 0: 300/s   at door 1: 100/s   at door 2: 200/s      each shard is to get 200/s
      └ 200/s stay, 100/s go to shard 1   └ all stay   └ all stay

What stays takes no detour. The doors tell each other what their clients publish, with the question whether a shard
answers; from that, each computes the same. Before a door knows anything, and for topics that it does not report, it
serves all parts in turn. The choice counts messages, so that batches of any size are balanced. A shard that does not
answer gets nothing meanwhile.

Messages that come together are in one part, of whichever clients: so a commit has one chunk of them, as without parts,
and not a small one for each part.
"""

from collections.abc import Iterator, Mapping, Set
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
      away: the shards that do not answer now, which get nothing if others have parts.
    """

    def __init__(self, placing: Placing, away: Set[int] = frozenset()) -> None:
        self._placing = placing
        self._away = away
        self._topics: dict[bytes, _Topic] = {}
        self._distant: list[_Topic] = []  # those whose messages go to another shard now
        self._reports: dict[int, Mapping[str, int]] = {}

    def choose(self, topic: bytes, part_count: int, message_count: int, company: object = None) -> int:
        """Return the number of the part that gets messages which come together.

        `company` is what else they come with, such as the open commit: the next ones with the same are in this part,
        too; if it is in another shard, only until `end_iteration`. None: they come alone.
        """
        chosen = self._topics.get(topic)
        if chosen is None or chosen.part_count != part_count:
            chosen = self._topics[topic] = _Topic(self._placing, topic, part_count)
        if company is not None and company is chosen.company:
            number = chosen.number
        else:
            number = chosen.choose(message_count, self._away)
            if company is not None:
                chosen.company, chosen.number = company, number
                if not chosen.is_own(number):
                    self._distant.append(chosen)
        chosen.add(number, message_count)
        return number

    @property
    def has_distant(self) -> bool:
        """Whether messages that come together go to another shard; the caller calls `end_iteration` then."""
        return bool(self._distant)

    def end_iteration(self) -> None:
        """Choose again for what goes to another shard: what comes later is in another commit there."""
        distant, self._distant = self._distant, []
        for topic in distant:
            if not topic.is_own(topic.number):
                topic.company = None

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
      company: what the last choice is for.
      number: the part that was chosen.
    """

    def __init__(self, placing: Placing, topic: bytes, part_count: int) -> None:
        home, shard_count = placing.shard_of(topic), placing.shard_count
        self.part_count = part_count
        self.accepted = self.accepted_before = 0
        self.company: object = None
        self.number = 0
        self._own, self._home = placing.number, home
        self._parts = [range((shard - home) % shard_count, part_count, shard_count) for shard in range(shard_count)]
        self._counts = [0] * part_count  # how many messages each part has got
        self._even = [len(parts) / part_count for parts in self._parts]
        self._weights = self._even  # the share of each shard in what this process accepts
        self._due = [0.0] * shard_count  # how many messages a shard should have got, and has not
        self._before: list[int] | None = None
        self._lately = [0.0] * shard_count

    def is_own(self, number: int) -> bool:
        """Return whether a part is in this shard."""
        return (self._home + number) % len(self._parts) == self._own

    def choose(self, message_count: int, away: Set[int]) -> int:
        """Return the number of the part for so many messages."""
        shard = self._own
        if self._weights[shard] < 1:
            due = [due + weight * message_count for due, weight in zip(self._due, self._weights, strict=True)]
            shard = due.index(max(due))
        if shard in away:
            shard = self._instead_of(shard, away)
        parts = self._parts[shard]
        return parts[0] if len(parts) == 1 else min(parts, key=self._counts.__getitem__)

    def _instead_of(self, shard: int, away: Set[int]) -> int:
        """Return the shard that is due of those that answer; what others miss is not due any more, but to these."""
        present = [each for each, parts in enumerate(self._parts) if parts and each not in away]
        if not present:
            return shard
        missed = sum(map(self._due.__getitem__, away))
        for each in away:
            self._due[each] = 0.0
        for each in present:
            self._due[each] += missed / len(present)
        return max(present, key=self._due.__getitem__)

    def add(self, number: int, message_count: int) -> None:
        """Count messages that go to a part."""
        self.accepted += message_count
        self._counts[number] += message_count
        if self._weights[self._own] < 1:
            self._due = [due + weight * message_count for due, weight in zip(self._due, self._weights, strict=True)]
            self._due[(self._home + number) % len(self._due)] -= message_count

    def follow(self, accepted: list[int]) -> bool:
        """Decide again, by the numbers of messages that all processes have accepted; return whether there are any."""
        before = self._before or accepted
        new = [now - then if now >= then else now for now, then in zip(accepted, before, strict=True)]
        self._before = accepted
        self._lately = [KEPT * lately + each for lately, each in zip(self._lately, new, strict=True)]
        self._weights = weights_of(self._own, self._lately, self._even)
        return sum(self._lately) >= 1 or before is accepted


def weights_of(own: int, lately: list[float], even: list[float]) -> list[float]:
    """Return which part of what this process accepts each shard gets, so that all together get even parts."""
    if lately[own] < 1:
        return even
    total = sum(lately)
    lacking = [max(0.0, share * total - each) for share, each in zip(even, lately, strict=True)]
    surplus = max(0.0, lately[own] - even[own] * total)
    if surplus == 0 or not any(lacking):  # rounded, equal numbers can differ from their mean
        return [float(shard == own) for shard in range(len(even))]
    weights = [surplus / lately[own] * each / sum(lacking) for each in lacking]
    weights[own] = 1 - surplus / lately[own]
    return weights
