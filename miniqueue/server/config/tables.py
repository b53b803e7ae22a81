"""The formats of the configuration file: its suffix determines which one.

    .json         JSON
    .yaml .yml    YAML, if PyYAML is installed
    any other     TOML

A key that occurs twice is a mistake in all of them: the parsers of JSON and YAML would take the last one.
"""

import json
import tomllib
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import orjson

Table = Mapping[str, object]

#: What a key in YAML can be: text, or `<<`, which merges another mapping.
_KEY_TAGS: Final = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"})


def parse_table(text: str, suffix: str) -> Table:
    """Parse the text of a file with this suffix; raises ValueError or RecursionError."""
    table = _PARSERS.get(suffix.lower(), tomllib.loads)(text)
    if not isinstance(table, dict) or not all(isinstance(key, str) for key in table):
        raise ValueError("invalid content; must be a table of settings")
    return table


def _parse_json(text: str) -> object:
    json.loads(text, object_pairs_hook=_check_keys)
    return orjson.loads(text)  # which also rejects NaN, and text that is not Unicode


def _check_keys(pairs: list[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if repeated := {key for key in keys if keys.count(key) > 1}:
        raise ValueError(f"key {min(repeated)!r} occurs twice")


def _parse_yaml(text: str) -> object:
    try:
        yaml = import_module("yaml")
    except ImportError as exc:
        raise ValueError("a YAML file requires PyYAML; run pip install 'miniqueue[yaml]', or use TOML or JSON") from exc
    try:
        _check_nodes(yaml.compose(text, yaml.SafeLoader), set())
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise ValueError(" ".join(str(exc).split())) from exc


def _check_nodes(node: Any, checked: set[int]) -> None:  # noqa: ANN401 - PyYAML has no types
    """Raise ValueError if `node`, in which aliases can occur several times, is not as JSON could be.

    No mapping has a key twice, or one that is no text, such as `on`, which is true; text is Unicode.
    """
    if node is None or id(node) in checked:
        return
    if isinstance(node.value, str):
        node.value.encode()
        return
    checked.add(id(node))
    if node.id == "mapping":
        for key, _ in node.value:
            if key.tag not in _KEY_TAGS:
                raise ValueError(f"invalid key in line {key.start_mark.line + 1}; must be text; put it in quotes")
        _check_keys([(key.value, value) for key, value in node.value])
    for item in node.value:
        for child in item if isinstance(item, tuple) else [item]:
            _check_nodes(child, checked)


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = MappingProxyType(
    {".json": _parse_json, ".yaml": _parse_yaml, ".yml": _parse_yaml}
)
