import pytest

from miniqueue.core.statistics import TICKS, Activity


def test_sums_are_of_the_last_ticks_alone():
    activity = Activity(2)
    for tick in range(1, 11):
        activity.note(tick, [tick, 1])
    assert activity.sums(10, 1) == [10, 1]
    assert activity.sums(10, 3) == [27, 3]
    assert activity.sums(10, TICKS) == [55, 10]


def test_ticks_without_a_note_count_as_nothing():
    activity = Activity(1)
    activity.note(1, [5])
    activity.note(4, [7])
    assert [activity.sums(4, ticks) for ticks in (1, 3, 4)] == [[7], [7], [12]]
    assert activity.sums(6, 2) == [0]
    assert activity.sums(6, 3) == [7]


@pytest.mark.parametrize("pause", [TICKS - 1, TICKS, TICKS + 5, 10 * TICKS])
def test_what_is_older_than_the_ring_is_forgotten(pause):
    activity = Activity(1)
    activity.note(3, [5])
    assert activity.sums(3 + pause, TICKS) == [5 if pause < TICKS else 0]
    activity.note(3 + pause, [2])
    assert activity.sums(3 + pause, TICKS) == [7 if pause < TICKS else 2]


def test_it_is_quiet_when_the_whole_ring_is_empty():
    activity = Activity(1)
    activity.note(1, [1])
    assert not activity.is_quiet(TICKS)
    assert activity.is_quiet(TICKS + 1)


def test_a_count_beyond_the_slot_stays_at_its_largest():
    activity = Activity(1)
    activity.note(1, [1 << 40])
    assert activity.sums(1, 1) == [(1 << 32) - 1]
