"""The drawings of docs/concepts.md are those that its script makes, and each of them is shown."""

import importlib.util
from types import ModuleType

import pytest

from tests.meta.modules import ROOT

PAGE = ROOT / "docs/concepts.md"
FOLDER = ROOT / "docs/concepts"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", FOLDER / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DRAWN: dict[str, str] = script().drawn()


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_drawing_is_what_its_script_draws_and_is_on_the_page(name):
    assert (FOLDER / name).read_text() == DRAWN[name]
    assert f"](concepts/{name})" in PAGE.read_text()


def test_no_drawing_is_left_over():
    assert {path.name for path in FOLDER.glob("*.svg")} == set(DRAWN)
