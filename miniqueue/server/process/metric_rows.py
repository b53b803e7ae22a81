"""A metric for Prometheus as one row: the scrape and the table in docs/protocol.md are made from it.

    MetricRow ─▶ RowCollector ─▶ the scrape

Knows no metric: the rows are declared where their values are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

Source = TypeVar("Source")


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[Source]):
    """A metric.

    Attributes:
      name: its name after `miniqueue_`.
      kind: its type: `gauge`, `counter` or `info`.
      help: what it is, in one sentence; the scrape contains it.
      read: returns its value, or the value of each label; None while there is none.
      labels: the names of its labels, at most one.
      note: what docs/protocol.md adds to `help`, in Markdown.
    """

    name: str
    kind: str
    help: str
    read: Callable[[Source], float | Mapping[str, float] | None]
    labels: tuple[str, ...] = ()
    note: str = ""


class RowCollector(Collector, Generic[Source]):
    """Yields the metrics of some rows, as they are now.

    Args:
      rows: the metrics.
      source: what the rows read.
    """

    def __init__(self, rows: tuple[MetricRow[Source], ...], source: Source) -> None:
        self._rows = rows
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that have a value."""
        for row in self._rows:
            value = row.read(self._source)
            if value is not None:
                yield _family(row, value)


def _family(row: MetricRow[Source], value: float | Mapping[str, float]) -> Metric:
    values = {(): value} if not isinstance(value, Mapping) else {(label,): count for label, count in value.items()}
    if row.kind == "info":
        info = InfoMetricFamily(f"miniqueue_{row.name.removesuffix('_info')}", row.help)
        for labels in values:
            info.add_metric([], dict(zip(row.labels, labels, strict=True)))
        return info
    kind = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = kind(f"miniqueue_{row.name}", row.help, labels=row.labels)
    for labels, count in values.items():
        family.add_metric(labels, count)
    return family
