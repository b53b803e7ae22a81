"""Medians, ratios of the same round, goals."""

import json
from dataclasses import replace

import pytest

from benchmarks import __main__
from benchmarks.__main__ import _command, _joined, _read
from benchmarks.results import Measured, Results, verdicts
from benchmarks.scenario import Contender, Goal, Scenario

RATE = "messages/s"


def measured(**rates: list[float]) -> Measured:
    found = Measured()
    for contender, values in rates.items():
        for value in values:
            found.add(contender, {RATE: value})
    return found


def scenario(*goals: Goal) -> Scenario:
    return Scenario("Group", "name", (Contender("ours", pytest.fail), Contender("theirs", pytest.fail)), goals)


def test_the_median_is_over_the_rounds():
    found = measured(ours=[1, 30, 2])
    assert found.median("ours", RATE) == 2
    assert found.median("theirs", RATE) is None


def test_a_ratio_is_the_median_of_the_ratios_of_each_round():
    found = measured(ours=[100, 10, 30], theirs=[200, 5, 30])
    assert found.compared("ours", "theirs", RATE) == 1.0
    assert found.compared("ours", "theirs", RATE, "difference") == 0


def test_a_ratio_to_nothing_is_none():
    assert measured(ours=[1]).compared("ours", "theirs", RATE) is None
    assert measured(ours=[1], theirs=[0]).compared("ours", "theirs", RATE) is None


def test_a_contender_that_fails_in_a_later_round_has_no_figures():
    found = measured(ours=[1, 2])
    found.drop("ours", "it broke")
    assert found.values("ours", RATE) == []
    assert found.absent == {"ours": "it broke"}


@pytest.mark.parametrize(
    ("goal", "word"),
    [
        (Goal(RATE, "ours", "at least", 300), "met"),
        (Goal(RATE, "ours", "at least", 301), "missed"),
        (Goal(RATE, "ours", "at most", 300), "met"),
        (Goal(RATE, "ours", "at most", 299), "missed"),
        (Goal(RATE, "ours", "at least", 3, "theirs"), "met"),
        (Goal(RATE, "ours", "at most", 2.9, "theirs"), "missed"),
        (Goal(RATE, "ours", "at most", 200, "theirs", by="difference"), "met"),
        (Goal(RATE, "ours", "at most", 199, "theirs", by="difference"), "missed"),
    ],
)
def test_goals_are_judged(goal, word):
    assert [verdict.word for verdict in verdicts(scenario(goal), measured(ours=[300], theirs=[100]))] == [word]


@pytest.mark.parametrize("missing", ["ours", "theirs"])
def test_a_goal_that_cannot_be_judged_says_why(missing):
    found = measured(ours=[300], theirs=[100])
    found.drop(missing, "not installed")
    (verdict,) = verdicts(scenario(Goal(RATE, "ours", "at least", 3, "theirs")), found)
    assert (verdict.word, verdict.value, verdict.reason) == ("not available", None, "not installed")


def test_a_later_run_adds_its_rounds_and_its_scenarios():
    earlier = Results({}, False, 1, 10, ["first"], {"one": measured(ours=[1], theirs=[2])})
    later = Results(
        {}, False, 1, 5, ["second"], {"one": measured(ours=[3, 5], theirs=[4, 6]), "other": measured(ours=[7])}
    )
    earlier.join(later)
    assert (earlier.seconds, earlier.made_by) == (15, ["first", "second"])
    assert earlier.scenarios["one"] == measured(ours=[1, 3, 5], theirs=[2, 4, 6])
    assert earlier.scenarios["other"] == measured(ours=[7])


def test_who_is_absent_in_one_of_two_runs_is_left_out():
    earlier, later = measured(ours=[1], theirs=[2]), measured(ours=[3])
    later.drop("theirs", "it broke")
    earlier.join(later)
    assert earlier.rounds == {"ours": {RATE: [1, 3]}}
    assert earlier.absent == {"theirs": "it broke"}


def test_only_like_is_added_to_like():
    earlier = Results({"memory": "1 GB"}, False, 1)
    others = {"machine": {"memory": "2 GB"}}, {"is_quick": True}, {"load_seconds": 0.3}
    for other in others:
        with pytest.raises(SystemExit, match="nothing was added"):
            _joined(earlier, replace(earlier, **other))


def test_figures_of_another_version_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(__main__, "RAW", tmp_path / "results.json")
    (tmp_path / "results.json").write_text('{"machine": {}, "is_quick": false, "seconds": 1, "scenarios": {}}')
    with pytest.raises(SystemExit, match="--write replaces it"):
        _read()


def test_the_command_of_a_run_is_kept_without_its_folder(monkeypatch):
    monkeypatch.setattr("sys.argv", ["__main__.py", "--only", "publish 10", "--folder=/mnt/disk"])
    assert _command("/mnt/disk") == "python -m benchmarks --only 'publish 10' --folder=…"


def test_results_survive_the_way_through_json():
    results = Results({"memory": "1 GB"}, False, 0.3, 12.5, ["bench"], {"name": measured(ours=[1.5, 2.5])})
    assert Results.from_json(json.loads(json.dumps(results.to_json()))) == results
