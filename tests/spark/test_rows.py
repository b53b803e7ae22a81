"""Messages as rows, and rows as what is published."""

import pyarrow as pa
import pytest

from miniqueue.errors import ConfigError
from miniqueue.spark.rows import ARROW_SCHEMA, batch_of, check_columns, rows_of
from miniqueue_client import Outgoing

TOLD = {b"published_at_ms": 1767225600123, b"key": b"k", b"headers": [[b"a", b"1"], [b"a", b"\xfe"]]}
FOUND = [b"0.high-17", b"\xff", TOLD]


def test_a_message_is_a_row():
    [row] = batch_of([FOUND], "t", "0.high").to_pylist()
    assert row.pop("published_at").isoformat() == "2026-01-01T00:00:00.123000+00:00"
    assert row == {
        "topic": "t",
        "partition": 0,
        "offset": 17,
        "id": "0.high-17",
        "key": b"k",
        "value": b"\xff",
        "headers": [{"name": "a", "value": b"1"}, {"name": "a", "value": b"\xfe"}],
        "priority": "high",
    }


def test_a_message_without_a_key_has_none():
    [row] = batch_of([[b"0-1", b"", {b"published_at_ms": 0}]], "t", "0").to_pylist()
    assert (row["key"], row["value"], row["headers"], row["priority"]) == (None, b"", [], "normal")


def test_a_page_may_have_messages_with_a_key_beside_others():
    found = [[b"0-1", b"", {b"published_at_ms": 0}], [b"0-2", b"", TOLD], [b"0-3", b"", {b"published_at_ms": 0}]]
    batch = batch_of(found, "t", "0")
    assert batch.column("key").to_pylist() == [None, b"k", None]
    assert [len(headers) for headers in batch.column("headers").to_pylist()] == [0, 2, 0]


def test_a_dead_letter_tells_what_it_was_where_that_is_asked_for():
    origin = {b"topic": b"t", b"id": b"0-3", b"published_at_ms": 1000, b"died_at_ms": 2500, b"reason": b"caf\xc3\xa9"}
    found = [[b"0-1", b"", {b"published_at_ms": 0, b"origin": origin}], [b"0-2", b"", {b"published_at_ms": 0}]]
    dead, other = batch_of(found, "t.dlq", "0", with_origin=True).column("origin").to_pylist()
    assert other is None
    assert (dead["topic"], dead["id"], dead["reason"]) == ("t", "0-3", "café")
    assert (dead["published_at"].timestamp(), dead["died_at"].timestamp()) == (1, 2.5)


def test_what_was_read_can_be_written():
    check_columns(dict.fromkeys(ARROW_SCHEMA.names, "void"))
    [row] = rows_of(batch_of([FOUND], "t", "0.high"))
    assert (row.payload, row.size_bytes) == (b"\xff", 6)
    assert row.options == {"key": b"k", "headers": [("a", b"1"), ("a", b"\xfe")], "priority": "high"}
    [plain] = rows_of(batch_of([[b"0-1", b"x", {b"published_at_ms": 0}]], "t", "0"))
    assert plain == (b"x", {}, 1, 2)


def test_a_row_may_be_text_and_have_options_or_none():
    batch = pa.RecordBatch.from_pylist(
        [{"value": "x", "key": "k", "ttl_seconds": 1.5}, {"value": None, "key": None, "ttl_seconds": None}]
    )
    assert list(rows_of(batch)) == [(b"x", {"key": "k", "ttl_seconds": 1.5}, 2, 6), (b"", {}, 0, 2)]


def test_a_frame_of_values_alone_has_no_options():
    batch = pa.RecordBatch.from_pydict({"value": [b"x", None], "offset": [1, 2]})
    assert list(rows_of(batch)) == [(b"x", {}, 1, 1), (b"", {}, 0, 1)]


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"key": "string"}, "the column value is missing"),
        ({"value": "string", "colour": "string"}, "colour"),
        ({"value": "bigint"}, "invalid type of the column value: bigint; must be string"),
        ({"value": "binary", "headers": "map<string,string>"}, "headers: map"),
        ({"value": "string", "delay_seconds": "string"}, "delay_seconds: string; must be double"),
        ({"value": "string", "at": "timestamp_ntz"}, "at: timestamp_ntz; must be timestamp"),
        ({"value": "string", "at": "date"}, "at: date; must be timestamp"),
    ],
)
def test_columns_that_have_no_use_are_refused(types, said):
    with pytest.raises(ConfigError, match=said):
        check_columns(types)


def test_columns_may_have_types_that_are_alike():
    headers = "array<struct<name:string,value:string>>"
    check_columns({"value": "string collate UTF8_LCASE", "ttl_seconds": "decimal(10,2)", "key": "void"})
    check_columns({"value": "varchar(10)", "headers": headers, "at": "timestamp", "unique_key": "binary"})


def test_headers_without_a_value_are_empty():
    headers = [[{"name": "a", "value": None}, None, {"name": "b", "value": b"1"}]]
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "headers": pa.array(headers, kind)})
    [row] = rows_of(batch)
    assert row.options == {"headers": [("a", b""), ("b", b"1")]}


@pytest.mark.parametrize("nulls", [1, 2])
def test_headers_that_are_all_null_are_none(nulls):
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    batch = pa.RecordBatch.from_pydict({"value": ["x"], "headers": pa.array([[None] * nulls], kind)})
    [row] = rows_of(batch)
    assert Outgoing(row.payload, **row.options).words() == [b"x", 0]
