"""Messages without keys are spread evenly, wherever their publishers are connected, and stay where they can."""

from collections import Counter
from random import Random

import pytest

from miniqueue.core.message.parts import part_name
from miniqueue.core.settings.placing import Placing
from miniqueue.server.shards.links.part_choice import PartChoice

TOPIC = b"orders"
PLACING = Placing(0, 2)


class Doors:
    """The choices of all shards of a broker, which tell each other what they accept."""

    def __init__(self, shard_count: int, part_count: int) -> None:
        self.placings = [Placing(number, shard_count) for number in range(shard_count)]
        self.choices = list(map(PartChoice, self.placings))
        self.part_count = part_count
        self.received = Counter[int](dict.fromkeys(range(part_count), 0))
        self.stayed = self.sent = 0

    def publish(self, door: int, message_count: int) -> None:
        part = self.choices[door].choose(TOPIC, self.part_count, message_count)
        self.received[part] += message_count
        self.sent += message_count
        if self.placings[0].shard_of(part_name(TOPIC, part)) == door:
            self.stayed += message_count

    def report(self) -> None:
        for number, choice in enumerate(self.choices):
            for shard, other in enumerate(self.choices):
                if shard != number:
                    choice.take(shard, other.report())
        for choice in self.choices:
            choice.follow()

    def run(self, rates: list[int], periods: int, chance: Random, batch: int = 32) -> None:
        """Publish so many batches at each door in each period, more or less, of about so many messages."""
        for _ in range(periods):
            doors = [
                door for door, rate in enumerate(rates) for _ in range(chance.randint(rate // 2, rate + rate // 2))
            ]
            chance.shuffle(doors)
            for door in doors:
                self.publish(door, chance.randint(1, 2 * batch))
            self.report()

    @property
    def unevenness(self) -> float:
        """The largest deviation of a part from the mean, as a part of the mean."""
        mean = self.sent / self.part_count
        return max(abs(count - mean) for count in self.received.values()) / mean


@pytest.mark.parametrize("rates", [[50, 50], [100, 0], [90, 10], [0, 70], [40, 40, 40], [100, 0, 0], [60, 30, 10, 0]])
@pytest.mark.parametrize("part_count", [8, 12])
def test_all_parts_get_as_many_messages_wherever_publishers_are_connected(rates, part_count):
    doors = Doors(len(rates), part_count)
    doors.run(rates, 120, Random(1))
    assert doors.unevenness < 0.05


def test_parts_that_are_not_the_same_number_in_each_shard_get_as_many_messages():
    doors = Doors(3, 5)
    doors.run([50, 50, 50], 200, Random(2))
    assert doors.unevenness < 0.05


def test_all_messages_stay_if_all_doors_have_as_many():
    doors = Doors(2, 8)
    doors.run([50, 50], 200, Random(3))
    assert doors.stayed > 0.95 * doors.sent


def test_as_many_messages_stay_as_can():
    doors = Doors(2, 8)
    doors.run([100, 0], 100, Random(4))
    assert 0.49 < doors.stayed / doors.sent < 0.51
    doors = Doors(2, 8)
    doors.run([75, 25], 100, Random(5))
    assert 0.7 < doors.stayed / doors.sent < 0.78


def test_parts_stay_even_while_publishers_connect_elsewhere():
    doors, chance = Doors(2, 8), Random(6)
    for rates in ([100, 0], [0, 100], [50, 50], [0, 10]) * 5:
        doors.run(rates, 40, chance)
    assert doors.unevenness < 0.1


@pytest.mark.parametrize("shard_count", [2, 3, 5, 7])
def test_doors_that_accept_exactly_as_many_keep_all_of_it(shard_count):
    doors = Doors(shard_count, shard_count)
    for _ in range(50):
        for door in range(shard_count):
            doors.publish(door, 7)
        doors.report()
    doors.stayed = doors.sent = 0
    for door in range(shard_count):
        doors.publish(door, 1)
    assert doors.stayed == doors.sent


def test_without_reports_parts_are_served_in_turn():
    doors = Doors(3, 6)
    for _ in range(60):
        doors.publish(1, 1)
    assert set(doors.received.values()) == {10}


def test_a_shard_that_does_not_answer_gets_nothing_and_as_many_as_others_when_it_answers_again():
    away = {1}
    choice = PartChoice(Placing(0, 3), away)
    shards = [Placing(0, 3).shard_of(part_name(TOPIC, choice.choose(TOPIC, 6, 1))) for _ in range(300)]
    assert Counter(shards) == {0: 150, 2: 150}
    away.clear()
    shards = [Placing(0, 3).shard_of(part_name(TOPIC, choice.choose(TOPIC, 6, 1))) for _ in range(300)]
    assert max(abs(count - 100) for count in Counter(shards).values()) <= 1


def test_a_topic_that_has_parts_only_where_no_shard_answers_goes_there():
    home = PLACING.shard_of(TOPIC)
    assert PartChoice(PLACING, {home}).choose(TOPIC, 1, 1) == 0


def test_a_topic_to_which_nothing_is_published_is_forgotten():
    doors = Doors(2, 8)
    doors.run([10, 10], 5, Random(7))
    assert all(choice.report() for choice in doors.choices)
    for _ in range(200):
        doors.report()
    assert not any(choice.report() for choice in doors.choices)
    doors.publish(0, 1)
    assert doors.choices[0].report() == {"orders": 1}


def test_a_topic_with_more_parts_uses_them():
    doors = Doors(2, 4)
    doors.run([50, 50], 20, Random(8))
    doors.part_count = 8
    doors.received = Counter(dict.fromkeys(range(8), 0))
    doors.sent = 0
    doors.run([50, 50], 100, Random(9))
    assert doors.unevenness < 0.05


def test_messages_that_come_together_are_in_one_part():
    doors = Doors(2, 8)
    doors.run([50, 50], 20, Random(10))
    [first, *_] = doors.choices
    commits = object(), object()
    chosen = [{first.choose(TOPIC, 8, count, commit) for count in (1, 32, 32)} for commit in commits]
    assert [len(parts) for parts in chosen] == [1, 1]
    assert chosen[0] != chosen[1]


def test_messages_for_another_shard_are_together_for_one_iteration():
    choice, commit = PartChoice(Placing(0, 2)), object()
    chosen = set[int]()
    for _ in range(4):
        [part] = {choice.choose(TOPIC, 2, 10, commit) for _ in range(2)}
        chosen.add(part)
        is_distant = PLACING.shard_of(part_name(TOPIC, part)) == 1
        assert choice.has_distant == is_distant
        choice.end_iteration()
        assert not choice.has_distant
        if not is_distant:
            assert choice.choose(TOPIC, 2, 1, commit) == part
            commit = object()
    assert chosen == {0, 1}
