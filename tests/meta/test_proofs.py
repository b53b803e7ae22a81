"""Proofs are left out only while nothing has changed that they are about."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest, proofs
from tests.model.planted.bugs import IN_THE_CORE, IN_THE_PROTOCOLS, IN_WAITING
from tests.model.planted.in_more import IN_MORE
from tests.model.test_walks import EVERYWHERE
from tests.proofs import PLANTED, PROOFS, ROOT, Proof

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
    assert [place for place in places if not place.startswith(PLANTED.sources)] == []


@pytest.mark.parametrize("proof", PROOFS.values(), ids=PROOFS)
def test_sources_of_a_proof_exist(proof):
    for source in map(ROOT.joinpath, proof.sources):
        assert source.is_file() or list(source.rglob("*.py")), source


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A tree of sources with which all bugs have been found."""
    monkeypatch.setattr(proofs, "ROOT", tmp_path)
    for source in PLANTED.sources:
        (tmp_path / source).mkdir(parents=True)
        (tmp_path / source / "module.py").write_text(source)
    (tmp_path / PLANTED.record).write_text(PLANTED.digest() + "\n")
    return tmp_path


def test_where_nothing_has_changed_bugs_are_not_planted_again(tree):
    (tree / "miniqueue/core/cache.pyc").write_text("x")
    (tree / "tests/test_something_else.py").write_text("x")
    assert not PLANTED.is_due()


@pytest.mark.parametrize("source", PLANTED.sources)
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
    assert PLANTED.is_due()


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_where_a_file_that_is_named_has_changed_a_proof_is_due(tree, change):
    proof = Proof("locked", ("miniqueue/core", "some.lock"))
    lock = tree / "some.lock"
    lock.write_text("a==1\n")
    (tree / proof.record).write_text(proof.digest())
    assert not proof.is_due()
    lock.unlink() if change == "remove" else lock.write_text("a==2\n")
    assert proof.is_due()


def item(*marks: str) -> SimpleNamespace:
    """Return a test, as far as the choice looks at it."""
    return SimpleNamespace(
        get_closest_marker=lambda name: name if name in marks else None, add_marker=lambda mark: None
    )


@pytest.mark.parametrize(
    ("due", "collected", "run"),
    [
        ("", "-PS-P", "--"),
        ("P", "-PS-P", "-P-P"),
        ("S", "-PS-P", "-S-"),
        ("PS", "-PS-P", "-PS-P"),
        ("", "PP", "PP"),  # nothing else was asked for
        ("", "--", "--"),
        ("", "", ""),
    ],
)
def test_proofs_are_deselected_unless_they_are_due_or_all_that_is_asked_for(due, collected, run, monkeypatch):
    marks = {"P": "planted", "S": "spark_jobs"}
    monkeypatch.setattr(Proof, "is_due", lambda proof: proof.mark in [marks[letter] for letter in due])
    items = [item(marks.get(letter, letter)) for letter in collected]
    before, told = list(items), []

    def pytest_deselected(*, items: list[object]) -> None:
        told.extend(items)

    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=pytest_deselected))
    conftest.pytest_collection_modifyitems(config, items)
    kept = [letter for letter, each in zip(collected, before, strict=True) if each in items]
    assert "".join(kept) == run
    assert told == [each for each in before if each not in items]


@pytest.mark.parametrize(("result", "is_noted"), [(pytest.ExitCode.OK, True), (pytest.ExitCode.TESTS_FAILED, False)])
def test_the_sources_are_noted_where_each_bug_was_found(result, is_noted, tree, monkeypatch):
    (tree / PLANTED.record).write_text("of other sources\n")
    monkeypatch.setattr("sys.argv", ["proofs", "planted"])
    monkeypatch.setattr(pytest, "main", lambda arguments: result)
    assert proofs.main() == result
    assert PLANTED.is_due() is not is_noted


def test_sources_that_change_meanwhile_are_not_noted(tree, monkeypatch):
    def change_a_source(arguments: list[str]) -> int:
        (tree / "miniqueue/core/module.py").write_text("x")
        return pytest.ExitCode.OK

    monkeypatch.setattr("sys.argv", ["proofs", "planted"])
    monkeypatch.setattr(pytest, "main", change_a_source)
    assert proofs.main() == 0
    assert PLANTED.is_due()
