"""A row becomes what Prometheus reads."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from miniqueue.server.process.metric_rows import MetricRow, RowCollector

ROWS = {
    "a value": (
        MetricRow("things", "gauge", "Things.", len),
        "# HELP miniqueue_things Things.\n# TYPE miniqueue_things gauge\nminiqueue_things 2.0\n",
    ),
    "a value of each label": (
        MetricRow("things_total", "counter", "Things.", lambda things: dict.fromkeys(things, 1), ("kind",)),
        "# HELP miniqueue_things_total Things.\n# TYPE miniqueue_things_total counter\n"
        'miniqueue_things_total{kind="a"} 1.0\nminiqueue_things_total{kind="b"} 1.0\n',
    ),
    "a text": (
        MetricRow("build_info", "info", "The program.", lambda _: {"1.2": 1}, ("version",)),
        "# HELP miniqueue_build_info The program.\n# TYPE miniqueue_build_info gauge\n"
        'miniqueue_build_info{version="1.2"} 1.0\n',
    ),
    "no value now": (MetricRow("things", "gauge", "Things.", lambda _: None), ""),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_scraped_as_its_type(name):
    row, expected = ROWS[name]
    registry = CollectorRegistry()
    registry.register(RowCollector((row,), ["a", "b"]))
    assert generate_latest(registry).decode() == expected
