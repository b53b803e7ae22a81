"""Rows as a few words of a command: Arrow makes them, without an object for each row.

    value    key        sizes    5 0 0 0  3 0 0 0        sizes of keys    2 0 0 0  0 0 0 0
    hello    k7         values   helloone                keys             k7
    one      null

These are the words of PUBPACKED in docs/protocol.md. Rows with other options are published by way of `rows`. Does not
know Spark or the broker.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import compute

from miniqueue.spark.rows import USUAL, WRITTEN
from miniqueue_client.calls.messages import Packed


def parts_of(batches: Iterable[pa.RecordBatch], max_count: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parts of at most `max_count` rows and `max_bytes`; a longer row is a part of its own.

    No part contains rows of two batches. If Spark is killed, its batches simply end; the rows of a task up to then must
    be in the same parts when the task is run again.
    """
    for batch in batches:
        ends = compute.cumulative_sum(sizes_of(batch)).to_numpy()
        first = done_bytes = 0
        while first < batch.num_rows:
            fitting = int(ends.searchsorted(done_bytes + max_bytes, side="right")) - first
            taken = max(min(fitting, max_count), 1)
            # A copy: a cast of a slice would convert the whole batch.
            yield pa.concat_batches([batch.slice(first, taken)])
            first += taken
            done_bytes = int(ends[min(first, batch.num_rows) - 1])


def packed(part: pa.RecordBatch) -> Packed | None:
    """Return the messages of rows, with their keys if there are any; None if a row has other options."""
    if any(_is_used(part, name) for name in WRITTEN if name != "key"):
        return None
    values = _joined(part.column("value"))
    keys = _joined(part.column("key")) if "key" in part.schema.names else (b"", b"")
    return Packed(*values, keys if keys[1] else ())


def sizes_of(batch: pa.RecordBatch) -> pa.Array:
    """Return the size of each row: bytes of its value and its key."""
    sizes = _sizes_of(batch.column("value"))
    return compute.add(sizes, _sizes_of(batch.column("key"))) if "key" in batch.schema.names else sizes


def _sizes_of(column: pa.Array) -> pa.Array:
    # Large, since a batch can have more than 2 GiB before it is divided.
    lengths = compute.binary_length(column.cast(pa.large_binary()))
    return compute.fill_null(lengths, 0)


def _is_used(part: pa.RecordBatch, name: str) -> bool:
    """Whether any row has an option, with another value than a read returns for a message without it."""
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
    """Return the sizes of the values of a column, and the values, concatenated; null counts as empty."""
    strings = compute.fill_null(column.cast(pa.binary()), b"")
    sizes = compute.binary_length(strings).to_numpy().astype("<u4").tobytes()
    [joined] = compute.binary_join(pa.ListArray.from_arrays([0, len(strings)], strings), b"")
    return sizes, joined.as_py()
