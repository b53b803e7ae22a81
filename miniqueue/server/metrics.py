"""The broker's counts as Prometheus metrics, read at the moment somebody asks; nothing is counted twice.

A topic that is deleted takes its counters along, which Prometheus sees as a reset.
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from miniqueue import __version__
from miniqueue.broker import Broker
from miniqueue.broker.limits import Limit


class BrokerCollector(Collector):
    """Yields the metrics of one broker.

    miniqueue_messages_published_total{topic}       messages
    miniqueue_messages_acknowledged_total{topic}    messages
    miniqueue_messages_dropped_total{topic}         messages, to make room in a topic that was full
    miniqueue_messages_moved_total{topic}           messages, to another topic as dead letters, or back
    miniqueue_messages{topic,state}                 messages; state: ready, leased or delayed
    miniqueue_topic_bytes{topic}                    bytes of their payloads
    miniqueue_consumers{topic}                      consumers, waiting or with a message
    miniqueue_topics                                topics that exist
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
        yield from self._per_topic()
        yield GaugeMetricFamily("miniqueue_topics", "Topics that exist.", value=len(self._broker.topics()))
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

    def _per_topic(self) -> Iterator[Metric]:
        published = CounterMetricFamily("miniqueue_messages_published", "Messages published.", labels=["topic"])
        acknowledged = CounterMetricFamily(
            "miniqueue_messages_acknowledged", "Messages acknowledged.", labels=["topic"]
        )
        dropped = CounterMetricFamily("miniqueue_messages_dropped", "Messages dropped.", labels=["topic"])
        moved = CounterMetricFamily("miniqueue_messages_moved", "Messages moved elsewhere.", labels=["topic"])
        size = GaugeMetricFamily("miniqueue_topic_bytes", "Bytes of a topic's messages.", labels=["topic"])
        messages = GaugeMetricFamily("miniqueue_messages", "Messages in a topic.", labels=["topic", "state"])
        consumers = GaugeMetricFamily("miniqueue_consumers", "Consumers of a topic.", labels=["topic"])
        for name, stats in self._broker.stats().items():
            topic = name.decode()
            published.add_metric([topic], stats.published)
            acknowledged.add_metric([topic], stats.acknowledged)
            dropped.add_metric([topic], stats.dropped)
            moved.add_metric([topic], stats.moved)
            size.add_metric([topic], stats.size_bytes)
            for state in ("ready", "leased", "delayed"):
                messages.add_metric([topic, state], getattr(stats, state))
            consumers.add_metric([topic], stats.consumers)
        yield from (published, acknowledged, dropped, moved, messages, size, consumers)
