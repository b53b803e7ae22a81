"""The table of everything that is measured."""

from benchmarks.scenario import Scenario
from benchmarks.scenarios import backlog, consume, delayed, grouped, http, large, latency, many, publish, spark

SCENARIOS: tuple[Scenario, ...] = (
    *publish.SCENARIOS,
    *consume.SCENARIOS,
    *latency.SCENARIOS,
    *http.SCENARIOS,
    *backlog.SCENARIOS,
    *delayed.SCENARIOS,
    *many.SCENARIOS,
    *grouped.SCENARIOS,
    *large.SCENARIOS,
    *spark.SCENARIOS,
)
