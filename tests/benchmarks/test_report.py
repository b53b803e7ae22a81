"""The report, as text and as a page."""

import re
from dataclasses import replace

import pytest

from benchmarks.report import PROSE_CHARS, goal_text, number, page, text
from benchmarks.results import Measured, Results, Verdict
from benchmarks.scenario import Contender, Goal, Scenario

RATE = "messages/s"
SCENARIO = Scenario(
    "Publish",
    "publish 10 B",
    tuple(Contender(name, pytest.fail) for name in ("ours", "theirs", "gone")),
    (Goal(RATE, "ours", "at least", 1.2, "theirs"), Goal(RATE, "ours", "at least", 3, "gone")),
    note="one contender cannot do it.",
)


def measured() -> Measured:
    found = Measured(
        absent={"gone": "gone-server is not installed"},
        commands={"ours": ["load -n 5"]},
        servers={"ours": ["serve -p …"]},
    )
    for ours, theirs in ((1500.4, 1000), (1000, 800), (2000, 1000)):
        found.add("ours", {RATE: ours})
        found.add("theirs", {RATE: theirs})
    return found


def results(*, is_quick: bool = False) -> Results:
    return Results({"memory": "1 GB"}, is_quick, 0.5, 600, ["bench --write"], {SCENARIO.name: measured()})


@pytest.mark.parametrize(
    ("value", "shown"), [(1234567.8, "1,234,568"), (100, "100"), (99.96, "100.0"), (12.34, "12.3"), (0.126, "0.13")]
)
def test_figures_have_the_digits_they_deserve(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("bound", "value", "shown"),
    [
        (0.9, 0.8997, "0.8997, wanted at least 0.9000: missed"),
        (0.9, 0.9004, "0.9004, wanted at least 0.9000: met"),
        (0.9, 0.9, "0.90, wanted at least 0.90: met"),
        (0.9, 0.96, "0.96, wanted at least 0.90: met"),
        (40_000, 39_999.9, "39,999.9, wanted at least 40,000.0: missed"),
        (100, 99.98, "99.98, wanted at least 100.00: missed"),
        (1 / 3, 0.333, "0.3330, wanted at least 0.3333: missed"),
        (0.9, 0.9 - 1e-12, "0.899999999999, wanted at least 0.9: missed"),
    ],
)
def test_a_figure_next_to_its_goal_has_the_digits_that_tell_them_apart(bound, value, shown):
    verdict = Verdict("name", Goal(RATE, "ours", "at least", bound), value)
    assert goal_text(verdict) == f"ours, messages/s: {shown}"


def test_the_text_has_medians_spreads_ratios_goals_and_who_is_missing():
    lines = [" ".join(line.split()) for line in text(SCENARIO, measured()).splitlines()]
    assert lines == [
        "publish 10 B",
        "ours messages/s 1,500 (1,000 – 2,000)",
        "theirs messages/s 1,000 (800 – 1,000) × 1.50",
        "gone not available: gone-server is not installed",
        "goal: ours, messages/s, against theirs: 1.50, wanted at least 1.20: met",
        "goal: ours, messages/s, against gone: –, wanted at least 3.00: not available",
    ]


def test_the_page_has_the_same_and_the_machine_the_plots_and_the_commands():
    shown = page([SCENARIO], results(), [("By depth", "benchmarks/depth.svg")])
    for expected in (
        "median of 3 rounds",
        "| memory | 1 GB |",
        "| took | 10 minutes |",
        "| made by | `bench --write` |",
        "a load of about 0.5 s",
        "| publish 10 B | ours | messages/s | ratio to theirs | at least 1.20 | 1.50 | met |",
        "![By depth](benchmarks/depth.svg)",
        "| publish 10 B | ours | messages/s | 1,500 | (1,000 – 2,000) |  |",
        "|  | theirs | messages/s | 1,000 | (800 – 1,000) | × 1.50 |",
        "\n- *publish 10 B*: one contender cannot do it.\n",
        "| publish 10 B | gone | gone-server is not installed |",
        "```sh\nserve -p …\n```",
        "```sh\nload -n 5  # ours\n```",
    ):
        assert expected in shown
    assert "quick run" not in shown


def test_the_page_says_of_how_many_rounds_the_figures_are():
    joined = results()
    joined.scenarios["other"] = measured()
    joined.scenarios["other"].join(measured())
    assert "median of 3 to 6 rounds" in page([SCENARIO], joined, [])


def test_the_page_of_a_quick_run_says_so():
    assert "This was a quick run" in page([SCENARIO], results(is_quick=True), [])


def test_the_page_says_how_to_have_spark_in_it():
    shown = page([SCENARIO], results(), [])
    assert "openjdk-17" in shown
    assert re.search(r"^export EXTRAS=.*\bspark\b", shown, re.MULTILINE)


def test_scenarios_that_did_not_run_are_not_on_the_page():
    other = Scenario("Consume", "another", ())
    assert "another" not in page([SCENARIO, other], results(), [])


def test_a_long_note_has_several_lines():
    shown = page([replace(SCENARIO, note="so that it is " * 20)], results(), [])
    noted = [line for line in shown.splitlines() if "so that it is" in line]
    assert noted[0].startswith("- *publish 10 B*: so that")
    assert len(noted) > 1
    assert all(len(line) <= PROSE_CHARS for line in noted)
