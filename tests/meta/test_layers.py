"""Imports only point down (ARCHITECTURE.md), and the pure layers stay pure."""

import ast
import re
from graphlib import TopologicalSorter

import pytest

from tests.meta.modules import CLIENT, ROOT, Import, imported_module, imports, module_name, module_paths, package_of

#: What each layer may import of miniqueue, beside itself. `` is the package itself, with the version in it.
MAY_IMPORT = {
    "": set(),
    "miniqueue_client": set(),
    "errors": {"miniqueue_client"},
    "interrupts": set(),
    "lean_logging": set(),
    "core": {"errors"},
    "access": {"core", "errors"},
    "storage": {"core", "errors"},
    "wire": {"core", "errors"},
    "broker": {"storage", "wire", "core", "errors"},
    "client": {"miniqueue_client"},
    "testing": {"miniqueue_client"},
    "spark": {"miniqueue_client", "errors"},
    "server": {"broker", "access", "storage", "wire", "core", "errors", "interrupts", ""},
    "tools": {"spark", "server", "miniqueue_client", "broker", "access", "storage", "wire", "core", "errors", ""},
    "commands": {"miniqueue_client", "tools", "server", "access", "storage", "wire"}
    | {"core", "errors", "interrupts", ""},
    "cli": {"commands", "tools", "server", "errors", "interrupts", "lean_logging", ""},
    "__main__": {"cli", "interrupts"},
}
#: The encodings and the port; everything else in `storage` is an adapter or belongs to one.
STORAGE_FOR_THE_BROKER = ("miniqueue.storage.format.", "miniqueue.storage.port")
IMPURE = {"asyncio", "logging", "os", "selectors", "signal", "socket", "ssl", "subprocess", "threading", "time"}
IMPURE |= {"structlog", "uvloop", "plyvel", "hypercorn", "starlette"}

MODULES = {module_name(path) for path in module_paths()}


def own_imports() -> list[Import]:
    """Return the imports of modules of miniqueue; not when the tests are collected, since it takes seconds."""
    return [found for found in imports() if found.imported.split(".")[0] in ("miniqueue", "miniqueue_client")]


def shown(wrong: list[Import]) -> list[str]:
    return [f"{found.module} imports {found.imported}" for found in wrong]


def test_every_module_belongs_to_a_layer():
    assert {package_of(module) for module in MODULES} <= MAY_IMPORT.keys()


def test_imports_only_point_down():
    wrong = [
        found
        for found in own_imports()
        if (layer := package_of(imported_module(found))) != package_of(found.module)
        and layer not in MAY_IMPORT[package_of(found.module)]
    ]
    assert shown(wrong) == []


def test_the_table_of_layers_itself_only_points_down():
    assert list(TopologicalSorter(MAY_IMPORT).static_order())  # raises on a cycle


def test_modules_and_rooms_do_not_import_each_other_in_a_circle_not_even_for_types():
    modules, rooms = {}, {}
    for each in own_imports():
        importing, imported = each.module, imported_module(each)
        modules.setdefault(importing, set()).update({imported} - {importing})
        if room_of(importing) != room_of(imported):
            rooms.setdefault(room_of(importing), set()).add(room_of(imported))
    assert len(rooms) > 40
    assert list(TopologicalSorter(modules).static_order())
    assert list(TopologicalSorter(rooms).static_order())


def room_of(module: str) -> str:
    """Return the folder of a module; modules of `miniqueue` itself, such as the one with the version, stand alone."""
    parent = CLIENT.parent if package_of(module) == CLIENT.name else ROOT
    is_package = (parent / module.replace(".", "/")).is_dir()
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
        for found in own_imports()
        if package_of(found.module) == "broker"
        and package_of(imported_module(found)) == "storage"
        and not found.imported.startswith(STORAGE_FOR_THE_BROKER)
    ]
    assert shown(wrong) == []


def test_in_the_server_only_run_knows_the_store():
    wrong = [
        found
        for found in own_imports()
        if package_of(found.module) == "server"
        and package_of(imported_module(found)) == "storage"
        and found.module != "miniqueue.server.run"
    ]
    assert shown(wrong) == []


def test_a_command_knows_of_the_server_only_its_settings_its_users_file_and_how_it_shows_foreign_text():
    wrong = [
        found
        for found in own_imports()
        if package_of(found.module) == "commands"
        and package_of(imported_module(found)) == "server"
        and not found.imported.startswith("miniqueue.server.process.escaping.")
        and found.module not in ("miniqueue.commands.shell.local", "miniqueue.commands.applying.users")
    ]
    assert shown(wrong) == []


def test_of_the_commands_only_those_that_read_backups_know_stores_and_tools():
    wrong = [
        found
        for found in own_imports()
        if package_of(found.module) == "commands"
        and package_of(imported_module(found)) in ("storage", "tools")
        and not found.module.startswith("miniqueue.commands.stored.")
    ]
    assert shown(wrong) == []


@pytest.mark.parametrize(
    ("one", "other"), [("http", "resp"), ("resp", "http"), ("monitor", "(resp|http)"), ("shards.http", "resp")]
)
def test_protocols_do_not_know_each_other(one, other):
    wrong = [
        found
        for found in own_imports()
        if re.match(rf"miniqueue\.server\.{one}\.", found.module)
        and re.match(rf"miniqueue\.server\.{other}(\.|$)", imported_module(found))
    ]
    assert shown(wrong) == []


def test_nothing_but_composition_and_what_lies_between_processes_names_a_protocol():
    wrong = [
        found
        for found in own_imports()
        if re.match(r"miniqueue\.server\.(http|resp|monitor)(\.|$)", imported_module(found))
        and not re.match(r"miniqueue\.server\.(http|resp|monitor|run|listeners|shards)(\.|$)", found.module)
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
    assert Import("miniqueue.core.cursor.cursor", "miniqueue.core.cursor.window.Window", False) in own_imports()
    assert any(found.is_for_types for found in own_imports())
