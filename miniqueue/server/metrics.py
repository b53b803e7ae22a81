"""The broker's own counts as Prometheus metrics, read at the moment somebody asks; nothing is counted twice.

Those of topics are in `topic_metrics`. A topic that is deleted takes its counters along: to Prometheus, a reset.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from miniqueue import __version__
from miniqueue.broker import Broker
from miniqueue.broker.limits import Limit


class BrokerCollector(Collector):
    """Yields the metrics of one broker.

    miniqueue_topics                                topics that exist
    miniqueue_schedules                             schedules that are set
    miniqueue_damaged_topics                        topics that cannot be read
    miniqueue_accepts_messages                      1, or 0 while messages are refused
    miniqueue_disk_free_bytes                       bytes free on the disk of the store, if it has one
    miniqueue_limits_reached_total{limit}           times since the start
    miniqueue_build_info{version}                   always 1
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        yield GaugeMetricFamily("miniqueue_topics", "Topics that exist.", value=len(self._broker.topics()))
        yield GaugeMetricFamily("miniqueue_schedules", "Schedules that are set.", value=self._broker.scheduler.count)
        yield GaugeMetricFamily(
            "miniqueue_damaged_topics", "Topics that cannot be read.", value=len(self._broker.faults())
        )
        yield GaugeMetricFamily(
            "miniqueue_accepts_messages",
            "Whether messages are accepted: 1, or 0 while they are refused.",
            value=float(self._broker.refusal is None),
        )
        yield self._limits()
        if (free_bytes := self._broker.free_bytes) is not None:
            yield GaugeMetricFamily("miniqueue_disk_free_bytes", "Bytes free on the store's disk.", value=free_bytes)
        yield InfoMetricFamily("miniqueue_build", "The running program.", value={"version": __version__})

    def _limits(self) -> Metric:
        reached = CounterMetricFamily("miniqueue_limits_reached", "How often a limit was reached.", labels=["limit"])
        for limit in Limit:
            reached.add_metric([limit.value], self._broker.limit_counts.counts.get(limit, 0))
        return reached


class CertificateCollector(Collector):
    """Yields when the certificate ends that new TLS connections get.

    miniqueue_certificate_expiration_timestamp_seconds   in Unix time

    Args:
      expires_at: returns that moment.
    """

    def __init__(self, expires_at: Callable[[], datetime]) -> None:
        self._expires_at = expires_at

    def collect(self) -> Iterator[Metric]:
        """Yield the metric as it is now."""
        yield GaugeMetricFamily(
            "miniqueue_certificate_expiration_timestamp_seconds",
            "When the certificate of new TLS connections ends, in Unix time.",
            value=self._expires_at().timestamp(),
        )
