"""Imports only point down (ARCHITECTURE.md), and the pure layers stay pure."""

import ast
import re
from graphlib import TopologicalSorter

import pytest

from tests.meta.modules import PACKAGE, Import, imported_module, imports, module_name, module_paths, package_of

#: What each layer may import of miniqueue, beside itself. `` is the package itself, with the version in it.
MAY_IMPORT = {
    "": set(),
    "errors": set(),
    "interrupts": set(),
    "core": {"errors"},
    "access": {"core", "errors"},
    "storage": {"core", "errors"},
    "wire": {"core", "errors"},
    "broker": {"storage", "wire", "core", "errors"},
    "client": {"wire", "core", "errors", ""},
    "spark": {"client", "errors"},
    "server": {"broker", "access", "storage", "wire", "core", "errors", "interrupts", ""},
    "tools": {"spark", "server", "client", "broker", "access", "storage", "wire", "core", "errors", ""},
    "cli": {"tools", "server", "errors", "interrupts", ""},
    "__main__": {"cli", "interrupts"},
}
#: The encodings and the port; everything else in `storage` is an adapter or belongs to one.
STORAGE_FOR_THE_BROKER = ("miniqueue.storage.format.", "miniqueue.storage.port")
IMPURE = {"asyncio", "logging", "os", "selectors", "signal", "socket", "ssl", "subprocess", "threading", "time"}
IMPURE |= {"structlog", "uvloop", "plyvel", "hypercorn", "starlette"}

OWN = [found for found in imports() if found.imported.split(".")[0] == "miniqueue"]
MODULES = {module_name(path) for path in module_paths()}


def shown(wrong: list[Import]) -> list[str]:
    return [f"{found.module} imports {found.imported}" for found in wrong]


def test_every_module_belongs_to_a_layer():
    assert {package_of(module) for module in MODULES} <= MAY_IMPORT.keys()


def test_imports_only_point_down():
    wrong = [
        found
        for found in OWN
        if (layer := package_of(imported_module(found))) != package_of(found.module)
        and layer not in MAY_IMPORT[package_of(found.module)]
    ]
    assert shown(wrong) == []


def test_the_table_of_layers_itself_only_points_down():
    assert list(TopologicalSorter(MAY_IMPORT).static_order())  # raises on a cycle


def test_modules_and_rooms_do_not_import_each_other_in_a_circle_not_even_for_types():
    modules, rooms = {}, {}
    for each in OWN:
        importing, imported = each.module, imported_module(each)
        modules.setdefault(importing, set()).update({imported} - {importing})
        if room_of(importing) != room_of(imported):
            rooms.setdefault(room_of(importing), set()).add(room_of(imported))
    assert len(rooms) > 40
    assert list(TopologicalSorter(modules).static_order())
    assert list(TopologicalSorter(rooms).static_order())


def room_of(module: str) -> str:
    """Return the folder of a module; modules of `miniqueue` itself, such as the one with the version, stand alone."""
    is_package = (PACKAGE.parent / module.replace(".", "/")).is_dir()
    return module if is_package or module.count(".") == 1 else module.rpartition(".")[0]


@pytest.mark.parametrize("layer", ["errors", "core", "wire", "access"])
def test_pure_layers_import_nothing_that_does_io_or_tells_the_time(layer):
    wrong = [
        found for found in imports() if package_of(found.module) == layer and found.imported.split(".")[0] in IMPURE
    ]
    assert shown(wrong) == []


def test_the_broker_knows_the_store_by_its_port_and_encodings_only():
    wrong = [
        found
        for found in OWN
        if package_of(found.module) == "broker"
        and package_of(imported_module(found)) == "storage"
        and not found.imported.startswith(STORAGE_FOR_THE_BROKER)
    ]
    assert shown(wrong) == []


def test_in_the_server_only_run_knows_the_store():
    wrong = [
        found
        for found in OWN
        if package_of(found.module) == "server"
        and package_of(imported_module(found)) == "storage"
        and found.module != "miniqueue.server.run"
    ]
    assert shown(wrong) == []


@pytest.mark.parametrize(("one", "other"), [("http", "resp"), ("resp", "http"), ("monitor", "(resp|http)")])
def test_protocols_do_not_know_each_other(one, other):
    wrong = [
        found
        for found in OWN
        if re.match(rf"miniqueue\.server\.{one}\.", found.module)
        and re.match(rf"miniqueue\.server\.{other}(\.|$)", imported_module(found))
    ]
    assert shown(wrong) == []


def test_nothing_but_run_names_a_protocol():
    wrong = [
        found
        for found in OWN
        if re.match(r"miniqueue\.server\.(http|resp|monitor)(\.|$)", imported_module(found))
        and not re.match(r"miniqueue\.server\.(http|resp|monitor|run)(\.|$)", found.module)
    ]
    assert shown(wrong) == []


def test_functions_do_not_import_but_for_a_reason_beside_it():
    wrong = []
    for path in module_paths():
        lines = path.read_text().splitlines()
        functions = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)]
        for node in {inner for function in functions for inner in ast.walk(function)}:
            if isinstance(node, ast.Import | ast.ImportFrom) and "#" not in lines[node.lineno - 1]:
                wrong.append(f"{module_name(path)}:{node.lineno}")
    assert wrong == []


def test_the_walk_finds_imports_at_all():
    assert Import("miniqueue.core.cursor.cursor", "miniqueue.core.cursor.window.Window", False) in OWN
    assert any(found.is_for_types for found in OWN)
