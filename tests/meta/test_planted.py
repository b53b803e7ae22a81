"""Planted bugs are left out only while nothing has changed that they depend on."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest, planted
from tests.model.planted.bugs import IN_THE_CORE, IN_THE_PROTOCOLS, IN_WAITING
from tests.model.planted.in_more import IN_MORE
from tests.model.test_walks import EVERYWHERE

PLANTS = [*IN_THE_CORE, *IN_MORE, *IN_WAITING, *IN_THE_PROTOCOLS, *EVERYWHERE]


class Noting:
    """Stands for `pytest.MonkeyPatch`, and notes in which modules something is replaced."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.setitem = patch.setitem
        self.modules: list[str] = []

    def setattr(self, owner: object, name: str, value: object) -> None:
        self.modules.append(owner.__module__ if isinstance(owner, type) else owner.__name__)
        self._patch.setattr(owner, name, value)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_bug_is_planted_in_what_exists_and_counts_as_a_source(plant, monkeypatch):
    noting = Noting(monkeypatch)
    plant(noting)
    places = [module.replace(".", "/") for module in noting.modules]
    assert [place for place in places if not place.startswith(planted.SOURCES)] == []


@pytest.fixture
def tree(tmp_path) -> Path:
    """A tree of sources in which all bugs have been found."""
    for source in planted.SOURCES:
        (tmp_path / source).mkdir(parents=True)
        (tmp_path / source / "module.py").write_text(source)
        assert list((planted.ROOT / source).rglob("*.py")), source
    (tmp_path / planted.RECORD).write_text(planted.digest(tmp_path) + "\n")
    return tmp_path


def test_where_nothing_has_changed_bugs_are_not_planted_again(tree):
    (tree / "miniqueue/core/cache.pyc").write_text("x")
    (tree / "tests/test_something_else.py").write_text("x")
    assert not planted.are_due(tree)


@pytest.mark.parametrize("source", planted.SOURCES)
@pytest.mark.parametrize("change", ["edit", "rename", "remove", "add"])
def test_where_a_source_has_changed_bugs_are_planted(tree, source, change):
    file = tree / source / "module.py"
    match change:
        case "edit":
            file.write_text(source + " ")
        case "rename":
            file.rename(file.with_name("other.py"))
        case "remove":
            file.unlink()
        case "add":
            (file.parent / "room").mkdir()
            (file.parent / "room" / "new.py").touch()
    assert planted.are_due(tree)


def item(*marks: str) -> SimpleNamespace:
    """Return a test, as far as the choice looks at it."""
    return SimpleNamespace(
        get_closest_marker=lambda name: name if name in marks else None, add_marker=lambda mark: None
    )


@pytest.mark.parametrize(
    ("are_due", "collected", "run"),
    [
        (False, "-P-P", "--"),
        (True, "-P-P", "-P-P"),
        (False, "PP", "PP"),  # nothing else was asked for
        (False, "--", "--"),
        (False, "", ""),
    ],
)
def test_planted_bugs_are_deselected_unless_they_are_due_or_all_that_is_asked_for(are_due, collected, run, monkeypatch):
    monkeypatch.setattr(planted, "are_due", lambda: are_due)
    items = [item("planted") if letter == "P" else item() for letter in collected]
    before, told = list(items), []

    def pytest_deselected(*, items: list[object]) -> None:
        told.extend(items)

    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=pytest_deselected))
    conftest.pytest_collection_modifyitems(config, items)
    assert "".join("P" if each.get_closest_marker("planted") else "-" for each in items) == run
    assert told == [each for each in before if each not in items]


@pytest.mark.parametrize(("result", "is_noted"), [(pytest.ExitCode.OK, True), (pytest.ExitCode.TESTS_FAILED, False)])
def test_the_sources_are_noted_where_each_bug_was_found(result, is_noted, tree, monkeypatch):
    (tree / planted.RECORD).write_text("of other sources\n")
    monkeypatch.setattr(planted, "ROOT", tree)
    monkeypatch.setattr("sys.argv", ["planted"])
    monkeypatch.setattr(pytest, "main", lambda arguments: result)
    assert planted.main() == result
    assert planted.are_due(tree) is not is_noted


def test_sources_that_change_meanwhile_are_not_noted(tree, monkeypatch):
    def change_a_source(arguments: list[str]) -> int:
        (tree / "miniqueue/core/module.py").write_text("x")
        return pytest.ExitCode.OK

    monkeypatch.setattr(planted, "ROOT", tree)
    monkeypatch.setattr("sys.argv", ["planted"])
    monkeypatch.setattr(pytest, "main", change_a_source)
    assert planted.main() == 0
    assert planted.are_due(tree)
