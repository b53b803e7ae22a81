"""Arrow makes the words of a command, which have the messages of all rows."""

from array import array
from itertools import accumulate
from mmap import mmap

import pyarrow as pa
import pytest

from miniqueue.core.message.numerals import split
from miniqueue.spark.packing import packed, parts_of, sizes_of

VALUES = [b"hello", b"", None, b"\r\n$1\r\n\xff", "ü".encode(), b"x" * 1000]
KEYS = [b"k7", None, b"", b"\r\n", b"k", b"\xfe"]


def rows(count: int, **columns: object) -> pa.RecordBatch:
    numbers = [b"%d" % number * (number % 7) for number in range(count)]
    return pa.RecordBatch.from_pydict({"value": pa.array(numbers, pa.binary()), **columns})


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("first", [0, 1, 3])
def test_values_and_keys_are_in_two_words_each(kind, first):
    batch = pa.RecordBatch.from_pydict({"value": pa.array(VALUES, kind), "key": pa.array(KEYS, kind)})[first:]
    found = packed(batch)
    assert split(found.sizes, found.payloads) == [value or b"" for value in VALUES[first:]]
    assert split(*found.keys) == [key or b"" for key in KEYS[first:]]


@pytest.mark.parametrize("keys", [{}, {"key": pa.nulls(6, pa.string())}, {"key": [""] * 6}])
def test_rows_without_any_key_have_no_words_of_keys(keys):
    found = packed(pa.RecordBatch.from_pydict({"value": pa.array(VALUES, pa.binary()), **keys}))
    assert split(found.sizes, found.payloads) == [value or b"" for value in VALUES]
    assert found.keys == ()


def test_what_reads_tell_of_a_plain_message_is_no_option():
    header = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    usual = {"priority": ["normal"] * 3, "headers": pa.array([[], None, []], header), "at": pa.nulls(3)}
    assert packed(rows(3, **usual)) is not None
    assert packed(rows(3, **{**usual, "priority": ["normal", "high", "normal"]})) is None
    assert packed(rows(3, **{**usual, "headers": pa.array([[], [{"name": "a", "value": b""}], []], header)})) is None
    assert packed(rows(3, delay_seconds=[None, 1.0, None])) is None


LIMITS = pytest.mark.parametrize(
    ("max_count", "max_bytes"), [(1, 100), (3, 100), (100, 9), (100, 1), (7, 20), (1000, 10_000)]
)


@LIMITS
def test_parts_are_as_large_as_may_be(max_count, max_bytes):
    batch = rows(50, key=[f"{number}" for number in range(50)])
    parts = [part.to_pylist() for part in parts_of([batch[:0], batch], max_count, max_bytes)]
    assert [row for part in parts for row in part] == batch.to_pylist()
    for part, behind in zip(parts, [*parts[1:], None], strict=True):
        assert len(part) <= max_count
        assert len(part) == 1 or size_of(part) <= max_bytes
        assert behind is None or len(part) == max_count or size_of([*part, behind[0]]) > max_bytes


@LIMITS
@pytest.mark.parametrize("size", [1, 2, 7, 49])
def test_parts_of_batches_that_end_too_early_are_the_first_of_all(max_count, max_bytes, size):
    whole = rows(50, key=[f"{number}" for number in range(50)])
    batches = [whole[start : start + size] for start in range(0, 50, size)]
    parts = [part.to_pylist() for part in parts_of(batches, max_count, max_bytes)]
    assert [row for part in parts for row in part] == whole.to_pylist()
    for count in range(len(batches)):
        cut = [part.to_pylist() for part in parts_of(batches[:count], max_count, max_bytes)]
        assert cut == parts[: len(cut)]


def size_of(part: list[dict]) -> int:
    return sum(len(row["value"]) + len(row["key"]) for row in part)


def test_columns_of_more_than_2_gib_are_cut_into_parts():
    content = mmap(-1, 3 << 30)  # takes no memory where nothing is written
    content[-2:] = b"ab"
    sizes = [1 << 20, (3 << 30) - (1 << 20) - 2, 1, 1]
    ends = pa.py_buffer(array("q", accumulate(sizes, initial=0)))
    values = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 4, [None, ends, pa.py_buffer(content)])
    batch = pa.RecordBatch.from_pydict({"value": values})
    assert sizes_of(batch).to_pylist() == sizes
    assert [packed(part).payloads for part in parts_of([batch[2:]], 100, 100)] == [b"ab"]
