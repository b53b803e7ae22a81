"""Repeated events are let through once per interval and key, with a count of the rest."""

from miniqueue.server.process.repeats import LogRateLimit


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def test_the_first_event_passes_and_the_next_waits_for_the_interval():
    clock = Clock()
    limit = LogRateLimit(10.0, clock)
    assert limit.admit("a") == 0
    assert limit.admit("a") is None
    clock.seconds = 9.9
    assert limit.admit("a") is None
    clock.seconds = 10.0
    assert limit.admit("a") == 2
    assert limit.admit("a") is None
    clock.seconds = 20.0
    assert limit.admit("a") == 1


def test_a_quiet_interval_holds_nothing_back():
    clock = Clock()
    limit = LogRateLimit(10.0, clock)
    limit.admit("a")
    clock.seconds = 1000.0
    assert limit.admit("a") == 0


def test_keys_do_not_wait_for_each_other():
    limit = LogRateLimit(10.0, Clock())
    assert limit.admit("a") == 0
    assert limit.admit(("a", 1)) == 0
    assert limit.admit("a") is None


def test_memory_is_bounded_by_forgetting_the_key_admitted_longest_ago():
    clock = Clock()
    limit = LogRateLimit(10.0, clock, max_keys=2)
    limit.admit("a")
    limit.admit("b")
    clock.seconds = 10.0
    limit.admit("a")
    limit.admit("c")  # forgets b
    assert limit.admit("a") is None
    assert limit.admit("c") is None
    assert limit.admit("b") == 0
