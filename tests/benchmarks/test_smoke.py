"""The harness drives a real miniqueue."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import loads, running
from benchmarks.bench import Bench
from benchmarks.queues import MINIQUEUE, Shape, miniqueue
from benchmarks.results import verdicts
from benchmarks.scenario import Figures, Goal, Scenario, fresh
from benchmarks.servers import Server
from tests.acceptance.tools import needs

pytestmark = [pytest.mark.acceptance, pytest.mark.slow, needs("redis-benchmark")]
COUNT = 200


def publish_and_consume(bench: Bench, server: Server) -> Figures:
    rate = MINIQUEUE.publish(bench, server, Shape(pipeline=4, connections=5), COUNT)
    consumed = loads.consume(bench, server, "subscribe", count=COUNT - 5, connections=5)
    return {"published/s": rate, **consumed, "memory MB": server.memory_mb()}


def test_a_tiny_scenario_runs_to_its_verdict(tmp_path: Path):
    broken = miniqueue("broken", "-no-such-flag")
    goal = Goal("published/s", "miniqueue", "at least", 1)
    scenario = Scenario(
        "Smoke",
        "publish, consume",
        (fresh(MINIQUEUE, publish_and_consume), fresh(broken, publish_and_consume)),
        (goal,),
    )
    measured = running.run(scenario, Bench(tmp_path), 2, lambda text: None)
    assert set(measured.rounds) == {"miniqueue"}
    assert all(len(values) == 2 and min(values) > 0 for values in measured.rounds["miniqueue"].values())
    assert "no-such-flag" in measured.absent["broken"]
    assert any("| redis-benchmark -p … -c 5 -P 4" in command for command in measured.commands["miniqueue"])
    assert [verdict.word for verdict in verdicts(scenario, measured)] == ["met"]
    assert list(tmp_path.iterdir()) == []


def test_a_peer_that_is_not_installed_is_named(tmp_path: Path):
    absent = replace(MINIQUEUE, name="absent", program="no-such-program")
    measured = running.run(
        Scenario("Smoke", "none", (fresh(absent, publish_and_consume),)), Bench(tmp_path), 1, lambda text: None
    )
    assert measured.absent == {"absent": "no-such-program is not installed"}
