import pytest

from miniqueue.core.statistics import BOUNDS_MS, SLOT_TICKS, SLOTS, Latencies


def test_without_messages_there_is_no_latency():
    assert Latencies().quantiles_ms(0, [0.5]) is None


@pytest.mark.parametrize(("latency_ms", "bound"), [(-5, 1), (0, 1), (1, 1), (2, 2), (4, 5), (999, 1000), (1001, 1500)])
def test_a_quantile_is_the_bound_above_the_latency(latency_ms, bound):
    latencies = Latencies()
    latencies.note(0, latency_ms)
    assert latencies.quantiles_ms(0, [0.5, 0.99]) == [bound, bound]


def test_a_latency_beyond_all_bounds_is_the_last_one():
    latencies = Latencies()
    latencies.note(0, 1 << 50)
    assert latencies.quantiles_ms(0, [1]) == [BOUNDS_MS[-1]]


def test_quantiles_divide_the_messages():
    latencies = Latencies()
    for latency_ms in [1] * 98 + [50, 3000]:
        latencies.note(0, latency_ms)
    assert latencies.quantiles_ms(0, [0.5, 0.98, 0.99, 1]) == [1, 1, 50, 3000]


def test_messages_are_forgotten_slot_by_slot():
    latencies = Latencies()
    latencies.note(0, 1)
    latencies.note(SLOT_TICKS, 100)
    end = SLOTS * SLOT_TICKS
    assert latencies.quantiles_ms(end - 1, [0.5, 1]) == [1, 100]
    assert latencies.quantiles_ms(end, [0.5, 1]) == [100, 100]
    assert latencies.quantiles_ms(end + SLOT_TICKS, [0.5, 1]) is None


def test_a_full_bucket_stays_full():
    latencies = Latencies()
    for _ in range(66_000):
        latencies.note(0, 1)
    assert latencies.quantiles_ms(0, [0.5]) == [1]
