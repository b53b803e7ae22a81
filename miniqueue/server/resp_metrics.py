"""Why RESP connections were ended, as a Prometheus metric, read at the moment somebody asks."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from miniqueue.server.resp_refusals import Reason, RespRefusals


class RespRefusalCollector(Collector):
    """Yields a counter for every reason, also for those that never were one.

    miniqueue_resp_refusals_total{reason}   connections
    """

    def __init__(self, refusals: RespRefusals) -> None:
        self._refusals = refusals

    def collect(self) -> Iterator[Metric]:
        """Yield the metric as it is now."""
        ended = CounterMetricFamily("miniqueue_resp_refusals", "RESP connections ended.", labels=["reason"])
        for reason in Reason:
            ended.add_metric([reason.value], self._refusals.counts.get(reason, 0))
        yield ended
