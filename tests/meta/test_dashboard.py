"""The dashboard for Grafana shows metrics that there are, and all that are of topics."""

import json
import re

import pytest

from miniqueue.server.monitor.topic_metrics import FAMILIES
from tests.meta.modules import ROOT

DASHBOARD = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
PROTOCOL = (ROOT / "docs/protocol.md").read_text()
DOCUMENTED = set(re.findall(r"`(miniqueue_\w+)", PROTOCOL))


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"\bminiqueue_\w+", expression))


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_every_panel_shows_metrics_that_there_are(panel):
    assert panel["targets"]
    for target in panel["targets"]:
        assert metrics_of(target["expr"]) <= DOCUMENTED
        assert metrics_of(target["expr"]) or target["expr"].startswith("process_")


def test_the_topics_to_choose_from_are_those_of_a_metric():
    queries = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    assert queries
    assert all(metrics_of(query) <= DOCUMENTED for query in queries)


def test_every_metric_of_topics_is_shown():
    shown = set().union(*map(metrics_of, expressions()))
    assert {f"miniqueue_{family.name}" for family in FAMILIES} <= shown


def test_panels_are_told_apart_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
