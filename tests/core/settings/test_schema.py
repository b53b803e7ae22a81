"""What a schema may contain: little, and no reference that leads elsewhere or in a circle."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.core.settings.schema import (
    ANY_SCHEMA_WEIGHT,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_PATTERNS,
    MAX_SCHEMA_VALUES,
    check_schema,
    measure_schema,
    without_lists,
)

PRICE = {"$defs": {"price": {"type": "number"}}, "properties": {"net": {"$ref": "#/$defs/price"}}}
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def nested(depth: int) -> dict:
    return {"not": nested(depth - 1)} if depth else {}


def doubling(count: int) -> dict:
    """References that make a validator work 2**count times."""
    definitions = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(count)}
    return {"$defs": definitions | {f"d{count}": {"type": "string"}}, "$ref": "#/$defs/d0"}


def chain(count: int) -> dict:
    definitions = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(count)}
    return {"$defs": definitions | {f"d{count}": {}}}


@pytest.mark.parametrize(
    "value",
    [
        *({}, PRICE, nested(MAX_SCHEMA_DEPTH), {"enum": [0] * (MAX_SCHEMA_VALUES - 2)}, chain(20)),
        {"$schema": DRAFT_4, "$id": "https://example.com/order", "id": "x"},
        {"properties": {"id": {"type": "string"}, "$id": {}, "$schema": {}}, "examples": [{"id": "x"}]},
        {"a": [{"b/~c": {}}], "$ref": "#/a/0/b~1~0c"},
        {"$defs": {"uuid": {"pattern": "a"}}, "allOf": [{"$ref": "#/$defs/uuid"}] * 30},
        {"not": {"unevaluatedItems": {}}, "unevaluatedProperties": False},
    ],
)
def test_a_schema_is_kept_as_its_text(value):
    assert check_schema(value) == check_schema(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
    assert orjson.loads(check_schema(value)) == value


def test_references_count_as_what_they_refer_to():
    assert measure_schema({"a": {"b": 1}, "$ref": "#/a"}).values == 4 + 2
    assert measure_schema(doubling(5)).values > 2**5


def test_what_takes_long_weighs_as_much():
    assert measure_schema({"pattern": "a", "patternProperties": {"b": {"pattern": "c"}}}).patterns == {
        "a": 1,
        "b": 1,
        "c": 1,
    }
    light, unique, whole, broken = (
        measure_schema(schema).weight
        for schema in ({"maximum": 1}, {"uniqueItems": True}, {"multipleOf": 1}, {"multipleOf": 0.1})
    )
    assert light < unique < whole < broken
    twice = {"a": {"multipleOf": 0.1}, "allOf": [{"$ref": "#/a"}] * 2}
    assert measure_schema(twice).weight > 3 * (broken - light)


def test_what_is_evaluated_again_counts_threefold_at_each_level():
    assert measure_schema({"not": {}, "minProperties": 1}).weight == ANY_SCHEMA_WEIGHT + 3
    assert measure_schema({"not": {}, "unevaluatedProperties": False}).weight == ANY_SCHEMA_WEIGHT + 1 + 3 + 3
    inner = {"pattern": "a", "unevaluatedItems": False}
    size = measure_schema({"$defs": {"inner": inner}, "$ref": "#/$defs/inner", "unevaluatedItems": True})
    assert size.patterns == {"a": 9 + 9}
    assert size.weight == ANY_SCHEMA_WEIGHT + 1 + 3 * 3 + 2 * (3 + 2 * 9)


def test_formats_weigh_as_much_as_they_may_take():
    plain, usual, heavy = (
        measure_schema({name: value}).weight
        for name, value in (("title", "uuid"), ("format", "uuid"), ("format", "idn-hostname"))
    )
    assert plain < usual < heavy
    assert measure_schema({"properties": {"format": {"type": "string"}}}).weight == ANY_SCHEMA_WEIGHT + 4


def test_alternatives_become_what_must_not_fit():
    a, b, c = {"type": "string"}, {"type": "number"}, {"anyOf": [{}]}
    none = {"allOf": [{"not": a}, {"not": b}]}
    assert without_lists({"items": {"anyOf": [a, b]}}) == {"items": {"allOf": [{"not": none}]}}
    assert without_lists({"allOf": [a], "oneOf": [a, b], "type": "array"}) == {
        "allOf": [a, {"not": none}],
        "type": "array",
    }
    assert without_lists({"anyOf": [c]}) == {
        "allOf": [{"not": {"allOf": [{"not": {"allOf": [{"not": {"allOf": [{"not": {}}]}}]}}]}}]
    }
    closed = {"anyOf": [a], "unevaluatedProperties": False}
    assert without_lists(closed) == without_lists({"anyOf": [a]})
    for schema in ({}, PRICE, {"not": a, "unevaluatedItems": False}, {"properties": {"anyOf": a, "oneOf": b}}):
        assert without_lists(schema) == schema


@pytest.mark.parametrize(
    "value",
    [
        *("", "{", "[]", "true", "1", "nan", [], True, 1, None, "[" * 5000),
        *({"a": "x" * MAX_SCHEMA_BYTES}, nested(MAX_SCHEMA_DEPTH + 1), {"enum": [0] * MAX_SCHEMA_VALUES}, doubling(40)),
        *(chain(MAX_SCHEMA_DEPTH), chain(300)),
        *(
            {"allOf": [{"pattern": f"{n}"} for n in range(MAX_SCHEMA_PATTERNS + 1)]},
            {"patternProperties": {f"a{n}": {} for n in range(17)}},
        ),
        *({"$ref": "#"}, {"$ref": "#/"}, {"$ref": "#/a"}, {"$ref": "#a"}, {"$ref": ""}, {"a": {}, "$ref": "#/%61"}),
        *({"$ref": "http://x.y/z"}, {"$ref": "file:///x"}, {"$ref": "other.json#/a"}),
        *({"a": {"$ref": "#/a"}}, {"a": {"$ref": "#/b"}, "b": {"not": {"$ref": "#/a"}}}),
        *(
            {"a": [1], "$ref": "#/a/x"},
            {"a": [1], "$ref": "#/a/1"},
            {"a": [1], "$ref": "#/a/00"},
            {"a": 1, "$ref": "#/a/b"},
        ),
        *({"not": {"$id": "http://x.y/z"}}, {"not": {"$dynamicRef": "#/a"}}, {"$dynamicRef": "#a"}, {"$anchor": "a"}),
        *({"not": {"$schema": DRAFT_4}}, {"$schema": DRAFT_4, "not": {"id": "http://x.y/z"}}, {"$recursiveRef": "#"}),
    ],
)
def test_what_could_hang_or_fetch_is_no_schema(value):
    with pytest.raises((ValueError, TypeError)):
        check_schema(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["#/a", "#/a/b", "#/0", "#"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "$ref"]), inner, max_size=3),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "$ref"]), JSON))
def test_any_object_is_a_schema_or_is_refused(value):
    try:
        text = check_schema(value)
    except ValueError:
        return
    assert measure_schema(orjson.loads(text)).values <= MAX_SCHEMA_VALUES
