"""The measurement of shards: where its clients are, and what it prints."""

from benchmarks.shards import ALL_AT_ONE, EACH_ITS_OWN, SETUPS, Figures, Setup, table
from miniqueue.core.settings.placing import Placing


def stayed(setup: Setup) -> int:
    """Return how many clients are at the shard with their topic."""
    shards = [Placing(0, 2).shard_of(topic.encode()) for topic in setup.topics]
    return sum(shard == door for shard, door in zip(shards, setup.doors, strict=True))


def test_clients_go_straight_or_half_of_them_take_the_detour():
    setups = SETUPS["eight topics"]
    assert stayed(setups["two shards, go straight"]) == 8
    assert stayed(setups["two shards, any"]) == stayed(Setup(True, EACH_ITS_OWN, ALL_AT_ONE)) == 4


def test_lines_have_medians_and_the_ratio_to_one_process():
    of_one = "one topic", "receive after 1", "one process"
    of_two = "one topic", "receive after 1", "spread, clients at both"
    lines = [*table({of_one: [Figures(100, 5)], of_two: [Figures(50, 7), Figures(80, 9), Figures(90, 8)]})]
    assert [line.split()[-5:] for line in lines] == [
        ["process", "100/s", "1.00", "5.0", "µs"],
        ["both", "80/s", "0.80", "8.0", "µs"],
    ]
