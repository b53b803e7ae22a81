"""RECEIVE begins in the own shard as far as the parts of all shards are served, by whichever clients."""

from collections import Counter
from random import Random

import pytest

from miniqueue.core.settings.placing import Placing
from miniqueue.server.shards.links.take_choice import ANY_FIRST, TakeChoice

TOPIC = b"orders"


class Doors:
    """The choices of all shards, whose parts always have messages, and which tell each other what they ask for."""

    def __init__(self, shard_count: int, part_count: int) -> None:
        self.choices = [TakeChoice(Placing(number, shard_count), Random(number)) for number in range(shard_count)]
        self.part_count = part_count
        self.taken = Counter[int]()
        self.stayed = self.count = 0

    def run(self, rates: list[int], periods: int, group: bytes = b"g") -> None:
        """Receive 100 messages so often at each door in each period."""
        self.taken = Counter[int](dict.fromkeys(range(len(rates)), 0))
        self.stayed = self.count = 0
        for _ in range(periods):
            for door, rate in enumerate(rates):
                for _ in range(rate):
                    shard = self.choices[door].first(TOPIC, group, self.part_count, 100)
                    self.taken[shard] += 1
                    self.stayed += shard == door
                    self.count += 1
            self.report()

    def report(self) -> None:
        for number, choice in enumerate(self.choices):
            for shard, other in enumerate(self.choices):
                if shard != number:
                    choice.take(shard, other.report())
        for choice in self.choices:
            choice.follow()

    @property
    def least(self) -> float:
        """The rate of the shard that is served least, as a part of the mean."""
        return min(self.taken.values()) / self.count * len(self.choices)


@pytest.mark.parametrize("rates", [[50, 50], [100, 0], [90, 10], [40, 40, 40], [100, 0, 0], [60, 30, 10, 0]])
def test_the_parts_of_all_shards_are_served_alike_wherever_consumers_are_connected(rates):
    doors = Doors(len(rates), 8 if len(rates) != 3 else 6)
    doors.run(rates, 20)
    doors.run(rates, 50)
    assert doors.least > 0.8


@pytest.mark.parametrize("shard_count", [2, 3])
def test_consumers_stay_with_the_own_parts_if_those_at_other_shards_take_as_much(shard_count):
    doors = Doors(shard_count, 6)
    doors.run([50] * shard_count, 20)
    doors.run([50] * shard_count, 50)
    assert doors.stayed > doors.count * (1 - 1.2 / ANY_FIRST)


def test_the_parts_of_consumers_that_have_gone_are_served_by_the_others_within_seconds():
    doors = Doors(2, 8)
    doors.run([50, 50], 20)
    doors.run([50, 0], 20)
    doors.run([50, 0], 20)
    assert doors.least > 0.8


def test_consumers_of_another_group_do_not_serve_a_group():
    doors = Doors(2, 8)
    for _ in range(20):
        doors.run([0, 50], 1, b"another")
        doors.run([50, 0], 1)
    doors.run([50, 0], 20)
    assert doors.least > 0.8


def test_a_shard_without_parts_begins_with_those_of_others():
    choice = Doors(4, 2)
    choice.run([50, 50, 50, 50], 20)
    choice.run([50, 50, 50, 50], 20)
    assert sorted(choice.taken.values())[:2] < [2 * choice.count / ANY_FIRST] * 2
    assert choice.least < 0.5


def test_nothing_is_kept_of_groups_that_ask_for_nothing_any_more():
    doors = Doors(2, 8)
    doors.run([50, 0], 1)
    for _ in range(200):
        doors.report()
    assert [choice.report() for choice in doors.choices] == [{}, {}]
