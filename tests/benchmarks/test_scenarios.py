"""The table of scenarios: its names, and the goals that refer to them."""

import pytest

from benchmarks import running
from benchmarks.bench import Bench
from benchmarks.plots import PLOTS
from benchmarks.scenarios import SCENARIOS, spark

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def test_names_of_scenarios_are_unique():
    assert len(BY_NAME) == len(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_goals_are_about_contenders_that_take_part(scenario):
    names = [contender.name for contender in scenario.contenders]
    assert len(set(names)) == len(names)
    assert {goal.of for goal in scenario.goals} | {goal.against for goal in scenario.goals} <= {*names, ""}


@pytest.mark.parametrize("peer", ["Redis", "JetStream", "beanstalkd"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_peer_takes_part_or_it_is_said_why_not(scenario, peer):
    assert peer in scenario.note or any(peer in contender.name for contender in scenario.contenders)


def test_groups_stand_together():
    groups = [scenario.group for scenario in SCENARIOS]
    assert groups == sorted(groups, key=groups.index)


def test_without_spark_its_scenarios_say_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(spark.needs, "missing", lambda environ: ["Java is missing"])
    measured = running.run(spark.SCENARIOS[0], Bench(tmp_path), 1, lambda text: None)
    assert measured.absent["miniqueue"] == measured.absent[spark.NO_SINK] == "Java is missing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_plots_show_what_is_measured(plot):
    for point in [point for points in plot.lines.values() for point in points]:
        assert point.contender in [contender.name for contender in BY_NAME[point.scenario].contenders]
