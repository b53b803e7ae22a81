"""The output of the load tools, as they print it."""

import pytest

from benchmarks.bench import MeasurementError
from benchmarks.tool_output import h2load_rate, redis_benchmark_rate

REDIS_BENCHMARK = """"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms"
"PUBLISH bench xxxxxxxxxx","71428.57","0.566","0.176","0.551","0.815"
"""

H2LOAD = """finished in 1.02s, 4901.96 req/s, 71.80KB/s
requests: 5000 total, 5000 started, 5000 done, {succeeded} succeeded, {failed} failed, 0 errored, 0 timeout
status codes: {ok} 2xx, 0 3xx, 0 4xx, {wrong} 5xx
traffic: 73.24KB (75000) total, 9.77KB (10000) headers (space savings 90.00%), 0B (0) data
"""


def test_the_rate_of_redis_benchmark_is_read():
    assert redis_benchmark_rate(REDIS_BENCHMARK) == 71428.57


def test_a_payload_with_quotes_and_commas_does_not_shift_the_columns():
    assert redis_benchmark_rate(REDIS_BENCHMARK.replace("bench xxx", 'a "",""b')) == 71428.57


def test_a_run_too_short_to_be_timed_is_no_division_by_zero():
    assert redis_benchmark_rate(REDIS_BENCHMARK.replace("71428.57", "0.00")) == float("inf")


def test_no_output_of_redis_benchmark_is_an_error():
    with pytest.raises(MeasurementError, match="redis-benchmark"):
        redis_benchmark_rate("")


def test_the_rate_of_h2load_is_read():
    assert h2load_rate(H2LOAD.format(succeeded=5000, failed=0, ok=5000, wrong=0), 5000) == 4901.96


@pytest.mark.parametrize("counts", [(4999, 1, 4999, 0), (5000, 0, 4999, 1)])
def test_requests_that_fail_are_not_taken_for_a_rate(counts):
    succeeded, failed, ok, wrong = counts
    output = H2LOAD.format(succeeded=succeeded, failed=failed, ok=ok, wrong=wrong)
    with pytest.raises(MeasurementError, match="requests: 5000 total"):
        h2load_rate(output, 5000)
