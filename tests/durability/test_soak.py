"""The soak says what came of each loop, keeps what a bad one has left, and fails if any was bad."""

from pathlib import Path

import pytest

from tests.durability import soak
from tests.durability.soak import Outcome


def good(directory: Path, count: int, seed: int) -> Outcome:
    return Outcome(f"good n={count} seed={seed}", True, "")


def bad(directory: Path, count: int, seed: int) -> Outcome:
    (directory / "evidence").write_text("x")
    return Outcome("bad lost=1", False, "lost: message 7")


def broken(directory: Path, count: int, seed: int) -> Outcome:
    raise ValueError("the harness has a bug")


LOOPS = {"good": good, "bad": bad, "broken": broken}


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_good_soak_has_a_line_for_each_loop_and_leaves_nothing(tmp_path, capsys):
    assert soak.main(["good", "--count", "3", "--seed", "5"], LOOPS) == 0
    assert capsys.readouterr().out == "good n=3 seed=5\n"
    assert list(tmp_path.iterdir()) == []


def test_a_bad_loop_fails_the_soak_and_its_evidence_is_kept(tmp_path, capsys):
    assert soak.main(["bad", "good", "--seed", "5"], LOOPS) == 1
    bad_line, finding, kept, good_line = capsys.readouterr().out.splitlines()
    assert (bad_line, finding, good_line) == ("bad lost=1", "lost: message 7", "good n=1000 seed=5")
    assert (Path(kept.removeprefix("kept: ")) / "evidence").read_text() == "x"


def test_a_loop_that_breaks_off_fails_the_soak_but_not_the_loops_behind_it(capsys):
    assert soak.main(["broken", "good"], LOOPS) == 1
    output = capsys.readouterr().out
    assert output.startswith("broken broke off: seed=")
    assert "ValueError: the harness has a bug" in output
    assert "good n=1000" in output


def test_a_loop_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit):
        soak.main(["unknown"], LOOPS)
    assert "no such loop: unknown" in capsys.readouterr().err


def test_all_loops_run_by_default(capsys):
    assert soak.main(["--count", "1"], {"good": good}) == 0
    assert capsys.readouterr().out.startswith("good n=1 seed=")
