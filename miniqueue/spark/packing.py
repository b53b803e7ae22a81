"""Rows as a few words of a command: made by Arrow, without an object for each of them.

    value    key        sizes    5 0 0 0  3 0 0 0        sizes of keys    2 0 0 0  0 0 0 0
    hello    k7         values   helloone                keys             k7
    one      null

These are the words of PUBPACKED in docs/protocol.md. Rows that have other options are for `rows`. Knows no Spark and no
broker.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import compute

from miniqueue.client.packed_calls import Packed
from miniqueue.spark.rows import USUAL, WRITTEN


def parts_of(batches: Iterable[pa.RecordBatch], max_count: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts of so many at most, and of so many bytes, but for rows that are longer alone.

    No part has rows of two batches: where Spark is killed the batches just end, as if there were no more, and what a
    task had of them by then must be in the parts in which it is when the task runs again.
    """
    for batch in batches:
        ends = compute.cumulative_sum(sizes_of(batch)).to_numpy()
        first = done_bytes = 0
        while first < batch.num_rows:
            fitting = int(ends.searchsorted(done_bytes + max_bytes, side="right")) - first
            taken = max(min(fitting, max_count), 1)
            yield pa.concat_batches([batch.slice(first, taken)])  # a copy: a slice would be cast with all it is of
            first += taken
            done_bytes = int(ends[min(first, batch.num_rows) - 1])


def packed(part: pa.RecordBatch) -> Packed | None:
    """Return the messages of rows, and their keys if there are any; None for rows that have other options."""
    if any(_is_given(part, name) for name in WRITTEN if name != "key"):
        return None
    values = _joined(part.column("value"))
    keys = _joined(part.column("key")) if "key" in part.schema.names else (b"", b"")
    return Packed(*values, keys if keys[1] else ())


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


def _joined(column: pa.Array) -> tuple[bytes, bytes]:
    """Return the sizes of all that is in a column, and that itself; null is as empty."""
    strings = compute.fill_null(column.cast(pa.binary()), b"")
    sizes = compute.binary_length(strings).to_numpy().astype("<u4").tobytes()
    [joined] = compute.binary_join(pa.ListArray.from_arrays([0, len(strings)], strings), b"")
    return sizes, joined.as_py()
