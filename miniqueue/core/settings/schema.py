"""JSON Schemas of topics: what a schema may contain, so that checking a message takes time linear in its size.

    {"$defs": {"price": {"type": "number"}}, "properties": {"net": {"$ref": "#/$defs/price"}}}
                                                            counted as if the reference were replaced

A schema is bounded in size and depth. References lead to other parts of the same schema and never in a circle; with all
of them replaced, it must not be large, since a few that double can make a validator work for hours. Keywords that
change where a reference leads are rejected. Some keywords count as many values, since they take as long; what is beside
`unevaluatedItems` or `unevaluatedProperties` is evaluated again and counts threefold, at each level that has one. What
keywords mean is up to the validator.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

#: Maximum size of a schema, of its levels, and of its values, keys apart, with all references replaced.
MAX_SCHEMA_BYTES: Final = 16 << 10
MAX_SCHEMA_DEPTH: Final = 32
MAX_SCHEMA_VALUES: Final = 1000
#: Maximum number of different patterns, which need memory when they are compiled.
MAX_SCHEMA_PATTERNS: Final = 16
#: What is allowed, for errors and documents.
SCHEMA_RULE: Final = (
    f"a JSON Schema, an object of at most {MAX_SCHEMA_BYTES} bytes, {MAX_SCHEMA_DEPTH} levels, and "
    f"{MAX_SCHEMA_VALUES} values with {MAX_SCHEMA_PATTERNS} patterns, whose references begin with #/ and form no circle"
)
_REFERENCE: Final = "$ref"
_DRAFT: Final = "$schema"
#: In this draft, `id` is a keyword; in others, a schema can contain it as a part of an example.
_DRAFT_WITH_ID: Final = "draft-04"
#: Keywords that make it unclear where a reference leads, and those of them that do not if they are at the root.
_UNCLEAR: Final = ("$id", _DRAFT, "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef")
_CLEAR_AT_ROOT: Final = frozenset({"$id", "id", _DRAFT})
#: Keywords that evaluate the schemas beside them again, and how often, at most, all that is in these is evaluated then.
REPEATING: Final = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_TIMES: Final = 3
#: Keywords whose failure makes a validator list what is wrong under each of their schemas.
_LISTING: Final = ("anyOf", "oneOf")
#: How many values a keyword counts as, since it takes as long: for each byte of a message, some nanoseconds a value.
ANY_SCHEMA_WEIGHT: Final = 10
_UNIQUE_WEIGHT: Final = 12
_CONTAINS_WEIGHT: Final = 10
_WHOLE_MULTIPLE_WEIGHT: Final = 200
_MULTIPLE_WEIGHT: Final = 1300
_FORMAT_WEIGHT: Final = 5
_HEAVY_FORMATS: Final = frozenset({"idn-email", "idn-hostname", "regex"})
_HEAVY_FORMAT_WEIGHT: Final = 25


class SchemaSize(NamedTuple):
    """What bounds the work of a validator; all with the references replaced.

    Attributes:
      values: the number of values.
      weight: the number of values that would take as long, without the patterns.
      patterns: the regular expressions, and what looks like one, with the number of times that each counts.
    """

    values: int
    weight: int
    patterns: Mapping[str, int]


def check_schema(value: object) -> str:
    """Return the JSON text of a schema, which is an object or its text; raises ValueError or TypeError."""
    text = orjson.dumps(orjson.loads(value) if isinstance(value, str) else value)
    if len(text) > MAX_SCHEMA_BYTES:
        raise ValueError("too many bytes")
    measure_schema(orjson.loads(text))
    return text.decode()


def measure_schema(schema: object) -> SchemaSize:
    """Return the size of a schema; raises ValueError if it is no object, or not within the rule."""
    if not isinstance(schema, dict):
        raise ValueError("no object")
    counting = _Counting(schema)
    counting.add(schema, 0, 1)
    return SchemaSize(counting.value_count, ANY_SCHEMA_WEIGHT + counting.weight, counting.patterns)


def without_lists(schema: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a schema in which `not` replaces `anyOf` and `oneOf`, so that a failure takes no memory.

    It accepts what the schema accepts, and what fits several schemas of a `oneOf`. If something is replaced, it also
    accepts all that the schema rejects as unevaluated: `not` evaluates nothing.
    """
    changed = _replaced(schema, frozenset())
    return schema if changed == schema else _replaced(schema, REPEATING)


def _replaced(value: Any, dropped: frozenset[str]) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, list):
        return [_replaced(item, dropped) for item in value]
    if not isinstance(value, dict):
        return value
    lists = {name: value[name] for name in _LISTING if isinstance(value.get(name), list)}
    kept = value.keys() - lists.keys() - dropped
    changed = {name: _replaced(member, dropped) for name, member in value.items() if name in kept}
    if lists:
        others = changed.get("allOf", [])
        alternatives = [[_replaced(each, dropped) for each in schemas] for schemas in lists.values()]
        none = [{"not": {"allOf": [{"not": each} for each in schemas]}} for schemas in alternatives]
        changed["allOf"] = [*others, *none] if isinstance(others, list) else none
    return changed


class _Counting:
    """Counts the values and the patterns of a schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        draft = schema.get(_DRAFT)
        self._unclear = (*_UNCLEAR, "id") if isinstance(draft, str) and _DRAFT_WITH_ID in draft else _UNCLEAR
        self.value_count = self.weight = 0
        self.patterns: Counter[str] = Counter()

    def add(self, value: Any, depth: int, times: int) -> None:  # noqa: ANN401 - any JSON
        """Count a value, and what is in it, `depth` levels below the root, which takes as long as `times` of them.

        Raises ValueError.
        """
        self.value_count += 1
        self.weight += times
        if depth > MAX_SCHEMA_DEPTH or self.value_count > MAX_SCHEMA_VALUES:
            raise ValueError("too deep, or too many values")
        if isinstance(value, dict):
            self._check_keywords(value, is_root=depth == 0)
            if REPEATING & value.keys():
                times *= _TIMES
            self._weigh(value, times)
            for member in value.values():
                self.add(member, depth + 1, times)
            if isinstance(reference := value.get(_REFERENCE), str):
                self.add(self._resolved(reference), depth + 1, times)
        elif isinstance(value, list):
            for item in value:
                self.add(item, depth + 1, times)

    def _check_keywords(self, value: dict[str, Any], *, is_root: bool) -> None:
        unclear = [name for name in self._unclear if isinstance(value.get(name), str)]
        if is_root:
            unclear = [name for name in unclear if name not in _CLEAR_AT_ROOT]
        if unclear:
            raise ValueError("a keyword that is not allowed")

    def _weigh(self, value: dict[str, Any], times: int) -> None:
        properties, own = value.get("patternProperties"), value.get("pattern")
        for pattern in (
            *([own] if isinstance(own, str) else []),
            *(properties if isinstance(properties, dict) else []),
        ):
            self.patterns[pattern] += times
        if len(self.patterns) > MAX_SCHEMA_PATTERNS:
            raise ValueError("too many patterns")
        weight = _UNIQUE_WEIGHT if value.get("uniqueItems") is True else 0
        weight += _CONTAINS_WEIGHT if "contains" in value else 0
        multiple, text_format = value.get("multipleOf"), value.get("format")
        if isinstance(multiple, int | float):
            weight += _WHOLE_MULTIPLE_WEIGHT if isinstance(multiple, int) else _MULTIPLE_WEIGHT
        if isinstance(text_format, str):
            weight += _HEAVY_FORMAT_WEIGHT if text_format in _HEAVY_FORMATS else _FORMAT_WEIGHT
        self.weight += times * weight

    def _resolved(self, reference: str) -> Any:  # noqa: ANN401 - any JSON
        if not reference.startswith("#/") or "%" in reference:
            raise ValueError("a reference to another document, or an encoded one")
        value: Any = self._schema
        for part in reference.removeprefix("#/").split("/"):
            value = _member(value, part.replace("~1", "/").replace("~0", "~"))
        return value


def _member(value: object, name: str) -> object:
    if isinstance(value, dict) and name in value:
        return value[name]
    if isinstance(value, list) and name in map(str, range(len(value))):
        return value[int(name)]
    raise ValueError("a reference to nothing")
