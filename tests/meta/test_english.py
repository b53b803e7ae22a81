"""The phrases and names that `english` finds do not come back."""

import pytest

from tests.meta.english import ROOT, findings_in, readable_files

READ = [ROOT / name for name in ("miniqueue", "client", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
#: The figures of benchmarks.md are generated, with the texts of the machine that measured them.
FILES = [path for path in readable_files(*READ) if path.name != "benchmarks.md"]
#: In these, only texts are read: tests have names of their own.
TESTS = [ROOT / name for name in ("tests", "benchmarks", "examples", ".ci")]
#: These contain the patterns.
OWN = {"english.py", "test_english.py"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_to_be_read_twice(path):
    assert [str(finding) for finding in findings_in(path)] == []


def test_nothing_in_tests_is_to_be_read_twice():
    files = [path for path in readable_files(*TESTS) if path.name not in OWN and "node_modules" not in path.parts]
    assert len(files) > 800
    assert [str(finding) for path in files for finding in findings_in(path, has_names=False)] == []


def test_the_patterns_find_what_they_are_for(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.meta.english.ROOT", tmp_path)
    page = tmp_path / "page.py"
    page.write_text('def act(given):\n    """Have it done by who asks, as a rule."""\n    found = given\n')
    problems = {finding.what_is_wrong for finding in findings_in(page)}
    assert problems == {
        "a pronoun without a noun",
        "a phrase that says little",
        "a summary that does not stand alone",
        "a variable named found",
        "a variable named given",
    }
