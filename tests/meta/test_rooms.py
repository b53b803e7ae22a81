"""Folders are rooms: small and described; and the private fields of an object are its own."""

import ast
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.meta.modules import PACKAGE, ROOT, module_name, module_paths

MAX_FILES = 20
#: What a room says of itself: what it is for, what it must not know, and in which order to read it.
MIN_DOCSTRING_LINES = 3

PACKAGES = sorted({path.parent for path in module_paths()})
TEST_FOLDERS = sorted({path.parent for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts})


@pytest.mark.parametrize("folder", [*PACKAGES, *TEST_FOLDERS], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_folder_has_at_most_20_files(folder):
    assert len(list(folder.glob("*.py"))) <= MAX_FILES


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_says_what_it_is_for(folder):
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert len(docstring.splitlines()) >= MIN_DOCSTRING_LINES


@pytest.mark.parametrize("path", module_paths(), ids=module_name)
def test_nobody_uses_private_attributes_of_another_object(path):
    """An attribute with an underscore belongs to the classes of its own file."""
    tree = ast.parse(path.read_text())
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_self(node.value)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {name for node in ast.walk(tree) for name in slots_of(node)}
    wrong = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and is_private(node.attr)
        and not is_self(node.value)
        and node.attr not in own | OF_LIBRARIES
    ]
    getters = [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("attrgetter", "getattr", "setattr")
        and any(
            isinstance(arg, ast.Constant) and isinstance(arg.value, str) and is_private(arg.value) for arg in node.args
        )
    ]
    assert wrong + getters == []


def test_a_class_is_in_one_file_and_uses_no_private_fields_of_a_base_in_another():
    places: dict[str, set[Path]] = {}
    for path in module_paths():
        for node in filter(is_class, ast.parse(path.read_text()).body):
            places.setdefault(node.name, set()).add(path)
    wrong = []
    for path in module_paths():
        for node in filter(is_class, ast.parse(path.read_text()).body):
            bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
            if any(path not in places.get(base, {path}) for base in bases):
                own = {
                    inner.name for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
                }
                own |= {inner.attr for inner in ast.walk(node) if is_assigned(inner)}
                used = {
                    inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute) and is_self(inner.value)
                }
                wrong += [f"{node.name}.{name}" for name in sorted(used - own) if is_private(name)]
    assert wrong == []


def is_class(node: ast.AST) -> TypeGuard[ast.ClassDef]:
    return isinstance(node, ast.ClassDef)


def is_assigned(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value)


#: Private attributes of libraries that have no public way, and the methods of named tuples.
OF_LIBRARIES = {"_replace", "_asdict", "_fields", "_make", "_HANDLER", "_schedule_fn", "_ctx", "_jsc", "_jvm"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def slots_of(node: ast.AST) -> list[str]:
    """Return the names in an assignment of `__slots__`."""
    if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__slots__"]:
        return [item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
    return []


def test_paths_are_found():
    assert Path("miniqueue") / "__init__.py" in {path.relative_to(ROOT) for path in module_paths()}
    assert module_name(PACKAGE / "core" / "__init__.py") == "miniqueue.core"
