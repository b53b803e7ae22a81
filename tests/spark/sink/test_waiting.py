"""A task that waits for its broker says so: soon, and then less and less often."""

import pytest

from miniqueue.spark.waiting import Waiting
from miniqueue_client import ConnectError, RefusedError


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def waiting(clock):
    return Waiting("redis://queue:6379", 300, clock)


def told_at(waiting, clock, caplog, seconds):
    """Return after how many seconds there was a line, where a try fails in each."""
    found = []
    for second in range(seconds):
        before = len(caplog.messages)
        waiting.tell(RefusedError("FULL", "x"))
        found += [second] * (len(caplog.messages) - before)
        clock.now += 1
    return found


def test_a_broker_that_takes_nothing_is_told_soon_and_then_at_growing_intervals(waiting, clock, caplog):
    assert told_at(waiting, clock, caplog, 300) == [2, 12, 32, 72, 152]


def test_it_is_told_who_is_waited_for_and_why_and_for_how_long(waiting, clock, caplog):
    clock.now += 2
    waiting.tell(ConnectError("cannot connect to redis://queue:6379: x"))
    [line] = caplog.messages
    assert line == "rows wait for redis://queue:6379, up to 298 s more: cannot connect to redis://queue:6379: x"


def test_bug_a_task_that_may_wait_without_end_failed_when_it_was_to_say_so(clock, caplog):
    waiting = Waiting("redis://queue:6379", float("inf"), clock)
    clock.now += 2
    waiting.tell(RefusedError("FULL", "x"))
    assert caplog.messages == ["rows wait for redis://queue:6379, up to inf s more: FULL x"]
    assert not waiting.is_over


def test_what_is_over_soon_is_not_told(waiting, clock, caplog):
    for _ in range(100):
        waiting.begin()
        assert told_at(waiting, clock, caplog, 2) == []


def test_a_topic_that_is_full_again_and_again_is_told_of_less_and_less(waiting, clock, caplog):
    for _ in range(100):
        waiting.begin()
        told_at(waiting, clock, caplog, 4)
    assert len(caplog.messages) == 6


def test_each_request_may_wait_for_so_long(waiting, clock):
    clock.now += 300
    assert not waiting.is_over
    clock.now += 1
    assert waiting.is_over
    waiting.begin()
    assert not waiting.is_over
