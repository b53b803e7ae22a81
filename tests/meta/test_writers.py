"""The tables in the docstrings of shared objects name every other module that writes their fields."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from miniqueue.broker.model.topic import Group, Topic
from miniqueue.core.cursor.cursor import GroupCursor
from miniqueue.core.log.partition import Partition
from tests.meta.modules import ROOT

#: The class, and the names of variables and attributes that hold an object of it.
SHARED = [
    (GroupCursor, {"cursor", "_cursor", "cursors", "lane", "sole"}),
    (Partition, {"partition", "_partition", "partitions", "plain"}),
    (Topic, {"topic", "_topic", "dead", "source", "existing"}),
    (Group, {"group", "_group", "line", "groups", "default", "key_group", "last_group"}),
]
#: Methods that change a list or a dict.
_CHANGES = (
    "append",
    "remove",
    "pop",
    "clear",
    "update",
    "setdefault",
    "move_to_end",
    "popitem",
    "extend",
    "insert",
    "sort",
)
#: Functions that set a field of many cursors; see `core.cursor.many`.
_SETS_MANY = ("set_all", "set_each")


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _parts(part)
    else:
        yield target.value if isinstance(target, ast.Subscript | ast.Starred) else target


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        for target in node.targets:
            yield from _parts(target)
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        yield from _parts(node.target)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
        yield node.func.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SETS_MANY:
        cursors, name, _ = node.args
        part = re.match(r"map\(_(\w+), ", ast.unparse(cursors))  # the pattern finds `log` in `map(_log, cursors)`
        if isinstance(name, ast.Constant):
            yield ast.parse(f"cursor.{f'{part[1]}.' if part else ''}{name.value}", mode="eval").body


def _field(target: ast.expr, names: set[str]) -> str:
    """Return the field that an expression writes, as `cursor.log.stop` writes `log.stop`; "" for none."""
    *bases, field = re.sub(r"\[[^][]*\]|\([^()]*\)", "", ast.unparse(target)).split(".")
    for index, base in reversed([*enumerate(bases)]):
        if base in names:
            return ".".join([*bases[index + 1 :], field])
        if any(base in others for _, others in SHARED):
            return ""  # a field of the other object
    return ""


def _writers(cls: type, names: set[str]) -> dict[str, set[str]]:
    fields = {*getattr(cls, "__slots__", ()), *re.findall(r"self\.([a-z]\w*)[:, ]", inspect.getsource(cls.__init__))}
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
    table = defaultdict(set)
    fields: list[str] = []
    for first, second in re.findall(r"^\s*\| (.*?) *\| (.*?) *\|$", cls.__doc__ or "", re.MULTILINE):
        fields = re.findall(r"`([\w.]+)`", first) or fields
        for field in fields:
            table[field] |= set(re.findall(r"`((?:core|broker)\.[\w.]+)`", second))
    return dict(table)


@pytest.mark.parametrize(("cls", "names"), SHARED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_table_names_every_writer(cls, names):
    assert _table(cls) == _writers(cls, names)
