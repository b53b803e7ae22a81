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

_NO_OPTIONS: Final = b"$1\r\n0\r\n"
_KEY: Final = b"$1\r\n2\r\n$3\r\nKEY\r\n"
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
    payloads = _words(_binary(part, "value", b""))
    if not _is_given(part, "key"):
        return Ready(_joined(payloads), part.num_rows), False
    keys = _binary(part, "key", b"")
    is_keyed = compute.not_equal(keys, b"")
    options = compute.if_else(is_keyed, _with(_KEY, _words(keys)), _NO_OPTIONS)
    words = 2 * part.num_rows + (KEYED_WORDS - 2) * compute.sum(is_keyed).as_py()
    return Ready(_joined(_with(payloads, options)), words), True


def sizes_of(batch: pa.RecordBatch) -> pa.Array:
    """Return of each row the bytes of its value and its key."""
    sizes = compute.binary_length(_binary(batch, "value", b"")).cast(pa.int64())
    if "key" in batch.schema.names:
        sizes = compute.add(sizes, compute.binary_length(_binary(batch, "key", b"")).cast(pa.int64()))
    return sizes


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


def _binary(batch: pa.RecordBatch, name: str, null: bytes) -> pa.Array:
    return compute.fill_null(batch.column(name).cast(pa.binary()), null)


def _words(column: pa.Array) -> pa.Array:
    lengths = compute.binary_length(column).cast(pa.string()).cast(pa.binary())
    return _with(b"$", lengths, b"\r\n", column, b"\r\n")


def _with(*pieces: pa.Array | bytes) -> pa.Array:
    return compute.binary_join_element_wise(*pieces, b"")


def _joined(column: pa.Array) -> bytes:
    """Return all of a column that was just made, one behind the other."""
    offsets, content = column.buffers()[1:]
    first, last = (int.from_bytes(offsets[4 * at : 4 * at + 4], "little") for at in (0, len(column)))
    return bytes(memoryview(content)[first:last]) if content is not None else b""
