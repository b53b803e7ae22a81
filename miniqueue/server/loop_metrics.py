"""The event loop's own counts as Prometheus metrics: what must not grow while the load stays the same."""

import asyncio
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from miniqueue.server.accepting import AcceptingLoop


class LoopCollector(Collector):
    """Yields the metrics of the running event loop; none when no loop runs.

    miniqueue_tasks                         tasks that are not done
    miniqueue_refused_connections_total     connections for which there was no descriptor
    """

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        yield GaugeMetricFamily("miniqueue_tasks", "Tasks of the event loop.", value=len(asyncio.all_tasks(loop)))
        if isinstance(loop, AcceptingLoop):
            yield CounterMetricFamily(
                "miniqueue_refused_connections",
                "Connections refused for want of descriptors.",
                value=loop.refused_count,
            )
