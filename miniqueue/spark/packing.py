r"""Rows as the words of a command, ready for the wire: made by Arrow, without an object for each of them.

    value            $5\r\nhello\r\n
    value, key       $5\r\nhello\r\n  $1\r\n2\r\n  $3\r\nKEY\r\n  $2\r\nk7\r\n
    value, no key    $5\r\nhello\r\n  $1\r\n0\r\n

These are the words of PUBBATCH and of PUBEACH in docs/protocol.md. Rows that have other options are for `rows`. Knows
no Spark and no broker.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyarrow import compute

from miniqueue.client.call import Ready
from miniqueue.spark.rows import USUAL, WRITTEN

_NO_OPTIONS: Final = b"$1\r\n0"
_KEY: Final = b"$1\r\n2\r\n$3\r\nKEY\r\n$"
#: Words of a row with a key.
KEYED_WORDS: Final = 4


def parts_of(batches: Iterable[pa.RecordBatch], max_count: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts of so many at most, and of so many bytes, but for rows that are longer alone.

    Where one ends depends on the rows only, and not on the batches that they come in.
    """
    held: list[pa.RecordBatch] = []
    count = size_bytes = 0
    for batch in batches:
        ends = compute.cumulative_sum(sizes_of(batch)).to_numpy()
        first = done_bytes = 0
        while first < batch.num_rows:
            fitting = int(ends.searchsorted(done_bytes + max_bytes - size_bytes, side="right")) - first
            taken = min(fitting, max_count - count, batch.num_rows - first)
            if taken <= 0 and held:
                yield pa.concat_batches(held)
                held, count, size_bytes = [], 0, 0
                continue
            taken = max(taken, 1)
            held.append(batch.slice(first, taken))
            count, size_bytes = count + taken, size_bytes + int(ends[first + taken - 1]) - done_bytes
            first += taken
            done_bytes = int(ends[first - 1])
    if held:
        yield pa.concat_batches(held)


def packed(part: pa.RecordBatch) -> tuple[Ready, bool] | None:
    """Return the words of rows, and whether they have options; None for rows that have others than keys."""
    if any(_is_given(part, name) for name in WRITTEN if name != "key"):
        return None
    payloads, keys = _binary(part, "value"), _keys(part)
    key_count = part.num_rows - keys.null_count
    if not key_count:
        return Ready(_joined(_lengths(payloads), payloads), part.num_rows), False
    options = compute.fill_null(compute.binary_join_element_wise(_KEY, _lengths(keys), b""), _NO_OPTIONS)
    words = 2 * part.num_rows + (KEYED_WORDS - 2) * key_count
    return Ready(_joined(_lengths(payloads), payloads, options, keys), words), True


def sizes_of(batch: pa.RecordBatch) -> pa.Array:
    """Return of each row the bytes of its value and its key."""
    sizes = _sizes_of(batch.column("value"))
    return compute.add(sizes, _sizes_of(batch.column("key"))) if "key" in batch.schema.names else sizes


def _sizes_of(column: pa.Array) -> pa.Array:
    lengths = compute.binary_length(column.cast(pa.large_binary()))  # there may be more than 2 GiB before it is cut
    return compute.fill_null(lengths, 0)


def _is_given(part: pa.RecordBatch, name: str) -> bool:
    """Whether any row has an option, beside what reads tell of a message without it."""
    if name not in part.schema.names:
        return False
    column = part.column(name)
    if column.null_count == len(column):
        return False
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return len(column.flatten()) > 0
    usual = USUAL.get(name, ())
    return not all(value is None or value in usual for value in compute.unique(column).to_pylist())


def _binary(batch: pa.RecordBatch, name: str) -> pa.Array:
    return compute.fill_null(batch.column(name).cast(pa.binary()), b"")


def _keys(part: pa.RecordBatch) -> pa.Array:
    """Return the keys, with null where there is none."""
    if "key" not in part.schema.names:
        return pa.nulls(part.num_rows, pa.binary())
    keys = part.column("key").cast(pa.binary())
    return compute.if_else(compute.not_equal(keys, b""), keys, None)


def _lengths(column: pa.Array) -> pa.Array:
    """Return how many bytes each has, in decimal."""
    return compute.binary_length(column).cast(pa.string()).cast(pa.binary())


def _joined(*pieces: pa.Array) -> bytes:
    """Return the pieces of each row that are not null, all rows one behind the other.

    A row begins with a length, and each of its pieces ends with a line end: so that is what stands between them.
    """
    rows = compute.binary_join_element_wise(*pieces, b"\r\n", null_handling="skip")
    [body] = compute.binary_join(pa.ListArray.from_arrays([0, len(rows)], rows), b"\r\n$")
    return b"$%b\r\n" % body.as_buffer()
