"""The floors that ARCHITECTURE.md draws are those of the code: each room imports only rooms on lower floors."""

import re

import pytest

from tests.meta.modules import PACKAGE, ROOT, imported_module, imports

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
LAYERS = ("core", "broker", "server")


def floors(layer: str) -> dict[str, int]:
    """Return the floor of each room of a layer, as the page draws it; the layer's own modules are one room."""
    section = PAGE.partition(f"\n### {layer.capitalize()}\n")[2].partition("\n### ")[0]
    drawing = section.partition("```\nfloor\n")[2].partition("```")[0]
    rooms: dict[str, int] = {}
    floor = 0
    for number, name in re.findall(r"^ {1,2}(\d+| ) +([\w/.]+)  ", drawing, re.MULTILINE):
        floor = int(number) if number.strip() else floor
        rooms["" if name.endswith(".py") else name.replace("/", ".")] = floor
    return rooms


def room_of(module: str, layer: str) -> str:
    """Return the room of a module, without the name of its layer; that of the package's own modules is empty."""
    is_package = (ROOT / module.replace(".", "/")).is_dir()
    folder = module if is_package else module.rpartition(".")[0]
    return folder.removeprefix(f"miniqueue.{layer}").removeprefix(".")


@pytest.mark.parametrize("layer", LAYERS)
def test_every_room_is_drawn(layer):
    folders = {str(path.parent.relative_to(PACKAGE / layer)) for path in (PACKAGE / layer).rglob("*.py")} - {"."}
    assert folders == {room.replace(".", "/") for room in floors(layer)} - {""}


@pytest.mark.parametrize("layer", LAYERS)
def test_rooms_import_only_lower_floors(layer):
    drawn = floors(layer)
    wrong = set()
    for found in imports():
        imported = imported_module(found)
        if found.module.startswith(f"miniqueue.{layer}.") and imported.startswith(f"miniqueue.{layer}."):
            upper, lower = room_of(found.module, layer), room_of(imported, layer)
            if upper != lower and drawn.get(upper, 0) <= drawn.get(lower, 0):
                wrong.add(f"{found.module} imports {imported}")
    assert sorted(wrong) == []
