"""The dashboard and the alerts use metrics that there are, as Prometheus understands them; the dashboard shows all."""

import json
import re
import subprocess

import pytest

from miniqueue.server.monitor.metrics import ROWS
from miniqueue.server.monitor.topic_metrics import FAMILIES, GROUP_FAMILIES, PARTITION_FAMILY
from miniqueue.server.resp.refusals import REFUSAL_ROWS
from tests.acceptance.tools import needs
from tests.meta.modules import ROOT

DASHBOARD = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
EXAMPLES = ROOT / "examples/prometheus"
ALERTS = (EXAMPLES / "alerts.yml").read_text()
ALERT_EXPRESSIONS = re.findall(r"^ +expr: (.+)$", ALERTS, re.MULTILINE)
ALERT_NAMES = re.findall(r"^ +- alert: (\w+)$", ALERTS, re.MULTILINE)
ALERT_TESTS = (EXAMPLES / "alerts_test.yml").read_text()
#: The labels of each metric; those of Prometheus are on all of them.
LABELS = {
    f"miniqueue_{row.name}": set(row.labels)
    for row in (*ROWS, *REFUSAL_ROWS, *FAMILIES, *GROUP_FAMILIES, PARTITION_FAMILY)
}
OF_PROMETHEUS = {"instance", "job"}
#: Variables of Grafana, by values that they may have.
VARIABLES = {"$__rate_interval": "1m", "$topic": ".*"}


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"\bminiqueue_\w+", expression))


def labels_of(expression: str) -> set[str]:
    """Return the labels that an expression selects or groups by."""
    selected = re.findall(r'(\w+) ?(?:=~|!~|!=|=)"', expression)
    grouped = re.findall(r"(?:by|without) \(([^)]*)\)", expression)
    return {*selected, *(label.strip() for labels in grouped for label in labels.split(","))}


def check_names(expression: str) -> None:
    """Check that the metrics exist, and have the labels."""
    assert metrics_of(expression) <= LABELS.keys()
    known = OF_PROMETHEUS.union(*(LABELS[metric] for metric in metrics_of(expression)))
    assert labels_of(expression) <= known


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: panel["title"])
def test_every_panel_shows_metrics_that_there_are(panel):
    assert panel["targets"]
    for target in panel["targets"]:
        check_names(target["expr"])
        assert metrics_of(target["expr"]) or target["expr"].startswith("process_")


def test_the_topics_to_choose_from_are_those_of_a_metric():
    queries = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    assert queries == ["label_values(miniqueue_messages, topic)"]
    assert "topic" in LABELS["miniqueue_messages"]


def test_every_metric_is_shown():
    shown = set().union(*map(metrics_of, expressions()))
    assert LABELS.keys() - shown == set()


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


@pytest.mark.parametrize("expression", ALERT_EXPRESSIONS)
def test_every_alert_is_about_metrics_that_there_are(expression):
    check_names(expression)
    assert metrics_of(expression) or expression.startswith("up{")


def test_a_name_that_there_is_not_is_noticed():
    for expression in (
        "miniqueue_gone > 0",
        'miniqueue_messages{gone="x"}',
        "sum by (topic, gone) (miniqueue_messages)",
    ):
        with pytest.raises(AssertionError):
            check_names(expression)


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    assert len(ALERT_NAMES) == len(ALERT_EXPRESSIONS) > 10
    fires = set(re.findall(r"- alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels", ALERT_TESTS))
    assert fires == set(ALERT_NAMES)
    is_silent = set(re.findall(r"\{alertname: (\w+), eval_time: \w+, exp_alerts: \[\]\}", ALERT_TESTS))
    # Of three certificates in one test, each of these two alerts is about some only.
    assert set(ALERT_NAMES) - is_silent == {"MiniqueueCertificateExpires", "MiniqueueCertificateExpiresSoon"}


def test_every_alert_is_in_the_operations():
    table = (ROOT / "docs/operations.md").read_text().partition("\n## Alerts\n")[2]
    assert re.findall(r"`(Miniqueue\w+)`", table.partition("\n\nAdjust")[0]) == ALERT_NAMES


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *words], cwd=EXAMPLES, capture_output=True, text=True, check=False)


@needs("promtool")
@pytest.mark.parametrize("words", [("test", "rules", "alerts_test.yml"), ("check", "config", "prometheus.yml")])
def test_prometheus_accepts_the_examples(words):
    done = promtool(*words)
    assert done.returncode == 0, done.stdout + done.stderr


@needs("promtool")
def test_prometheus_understands_every_expression_of_the_dashboard(tmp_path):
    text = json.dumps([{"record": f"shown:{n}", "expr": expr} for n, expr in enumerate(expressions())])
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    assert "$" not in text
    path = tmp_path / "rules.yml"
    path.write_text(f'{{"groups": [{{"name": "dashboard", "rules": {text}}}]}}')  # JSON is YAML
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
