"""The tables in the docstrings of shared objects name every other module that writes their fields."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.log.partition import Partition
from tests.meta.modules import ROOT

#: The class, and the names of variables and attributes that hold an object of it.
SHARED = [(GroupCursor, {"cursor", "_cursor"}), (Partition, {"partition"})]


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "remove"):
        yield node.func.value


def _field(target: ast.expr, names: set[str]) -> str:
    """Return the field that an expression writes, as `cursor.log.stop` writes `log.stop`; "" for none."""
    *bases, field = ast.unparse(target).split(".")
    for index, base in enumerate(bases):
        if base in names:
            return ".".join([*bases[index + 1 :], field])
    return ""


def _writers(cls: type, names: set[str]) -> dict[str, set[str]]:
    fields = set(re.findall(r"self\.([a-z]\w*)[:, ]", inspect.getsource(cls.__init__)))
    writers = defaultdict(set)
    for layer in ("core", "broker"):
        for path in sorted((ROOT / "miniqueue" / layer).rglob("*.py")):
            module = str(path.relative_to(ROOT / "miniqueue"))[:-3].replace("/", ".")
            for node in ast.walk(ast.parse(path.read_text())):
                for target in _targets(node):
                    field = _field(target, names)
                    if field.partition(".")[0] in fields and f"miniqueue.{module}" != cls.__module__:
                        writers[field].add(module)
    return dict(writers)


def _table(cls: type) -> dict[str, set[str]]:
    table = {}
    field = ""
    for first, second in re.findall(r"^\s*\| (.*?) *\| (.*?) *\|$", cls.__doc__ or "", re.MULTILINE):
        if name := re.fullmatch(r"`([\w.]+)`", first):
            field = name[1]
            table[field] = set()
        if field:
            table[field] |= set(re.findall(r"`((?:core|broker)\.[\w.]+)`", second))
    return table


@pytest.mark.parametrize(("cls", "names"), SHARED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_table_names_every_writer(cls, names):
    assert _table(cls) == _writers(cls, names)
