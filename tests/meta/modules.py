"""The modules of miniqueue as the meta tests see them: source text, syntax tree, and what each imports."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "miniqueue"
CLIENT = ROOT / "client/src/miniqueue_client"


class Import(NamedTuple):
    """One name that a module imports, fully spelled; `is_for_types` when only a type checker runs it."""

    module: str
    imported: str
    is_for_types: bool


def module_paths() -> list[Path]:
    return sorted((*PACKAGE.rglob("*.py"), *CLIENT.rglob("*.py")))


def module_name(path: Path) -> str:
    """Return the dotted name of the module in a file: `miniqueue.core`, `miniqueue.core.cursor.lease`."""
    parent = CLIENT.parent if path.is_relative_to(CLIENT) else ROOT
    return ".".join(path.relative_to(parent).with_suffix("").parts).removesuffix(".__init__")


def package_of(module: str) -> str:
    """Return the layer of a module: `core` for `miniqueue.core.cursor.lease`, `` for `miniqueue` itself.

    The package of the client is a layer as a whole, and has its own name.
    """
    if module.split(".", maxsplit=1)[0] == CLIENT.name:
        return CLIENT.name
    return module.split(".")[1] if "." in module else ""


@cache
def imports() -> list[Import]:
    return [found for path in module_paths() for found in _imports_of(path)]


def _imports_of(path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and ast.unparse(outer.test) == "TYPE_CHECKING"
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        for name in _imported_names(node, path):
            yield Import(module_name(path), name, id(node) in for_types)


def _imported_names(node: ast.AST, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{path}:{node.lineno}: relative imports hide the layer"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@cache
def _all_modules() -> frozenset[str]:
    return frozenset(map(module_name, module_paths()))


def imported_module(imported: Import) -> str:
    """Return the module that an import names; the name in it is left out."""
    return imported.imported if imported.imported in _all_modules() else imported.imported.rpartition(".")[0]
