"""What HTTP clients were refused, as a Prometheus metric, read at the moment somebody asks."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from miniqueue.server.refusals import Reason, Refusals


class RefusalCollector(Collector):
    """Yields a counter for every reason, also for those that never were one.

    miniqueue_http_refusals_total{reason}   requests, streams and connections
    """

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals

    def collect(self) -> Iterator[Metric]:
        """Yield the metric as it is now."""
        refused = CounterMetricFamily(
            "miniqueue_http_refusals", "HTTP requests, streams and connections refused.", labels=["reason"]
        )
        for reason in Reason:
            refused.add_metric([reason.value], self._refusals.counts.get(reason, 0))
        yield refused
