"""Counting failures, with a clock of its own."""

import pytest

from miniqueue.access.throttle import Throttle, network_of


class Clock:
    def __init__(self) -> None:
        self.now_seconds = 100.0

    def __call__(self) -> float:
        return self.now_seconds


def fail(throttle, key, times):
    for _ in range(times):
        throttle.failed(key)


def test_as_many_failures_within_the_time_block_a_key_and_no_other():
    throttle = Throttle(3, 60, Clock())
    fail(throttle, "a", 2)
    assert not throttle.is_blocked("a")
    throttle.failed("a")
    assert throttle.is_blocked("a")
    assert not throttle.is_blocked("b")


def test_failures_are_forgotten_after_the_time():
    clock = Clock()
    throttle = Throttle(3, 60, clock)
    fail(throttle, "a", 2)
    clock.now_seconds += 60
    fail(throttle, "a", 2)
    assert not throttle.is_blocked("a")


def test_a_block_lasts_from_the_failure_that_caused_it():
    clock = Clock()
    throttle = Throttle(3, 60, clock)
    fail(throttle, "a", 2)
    clock.now_seconds += 59
    throttle.failed("a")
    clock.now_seconds += 59
    assert throttle.is_blocked("a")
    clock.now_seconds += 1
    assert not throttle.is_blocked("a")


def test_the_table_does_not_grow():
    throttle = Throttle(1, 60, Clock(), max_keys=10)
    for number in range(1000):
        throttle.failed(str(number))
    assert len(throttle._failures) == 10
    assert throttle.is_blocked("999")


def test_an_attempt_counts_once_for_as_long_as_failures_count():
    clock = Clock()
    throttle = Throttle(2, 60, clock)
    for _ in range(9):
        throttle.failed("a", b"x")
    assert throttle.has_failed("a", b"x")
    assert not throttle.has_failed("b", b"x")
    assert not throttle.is_blocked("a")
    throttle.failed("a", b"y")
    assert throttle.is_blocked("a")
    clock.now_seconds += 60
    assert not throttle.has_failed("a", b"x")


def test_attempts_that_are_forgotten_count_again_beside_what_was_counted():
    throttle = Throttle(2, 60, Clock())
    throttle.failed("a", b"x")
    throttle.forget_attempts()
    assert not throttle.has_failed("a", b"x")
    throttle.failed("a", b"x")
    assert throttle.is_blocked("a")


def test_no_more_attempts_are_remembered_than_block_a_key():
    throttle = Throttle(3, 60, Clock())
    for number in range(100):
        throttle.failed("a", b"%d" % number)
    assert [number for number in range(100) if throttle.has_failed("a", b"%d" % number)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:0db8:0001:0002::/64"),
        ("2001:db8:1:2::7", "2001:0db8:0001:0002::/64"),
        ("fe80::1%eth0", "fe80:0000:0000:0000::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("?", "?"),
    ],
)
def test_addresses_of_one_network_count_together(address, network):
    assert network_of(address) == network
