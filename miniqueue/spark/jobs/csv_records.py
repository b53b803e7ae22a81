"""Lines of CSV as records, of which one may have several lines; for a task that has the lines of a file in order.

    line       binary    the text of a record, its lines with what was between them
    file       string    where it stands
    number     bigint    its first line, from 1 on
    open       bigint    the line in which a quote was opened that is not closed; null for none

What follows such a quote is no record, whatever it looks like: each line of it is returned alone.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from miniqueue.spark.jobs.csv_quotes import is_left_open

COLUMNS: Final = "line binary, file string, number bigint, open bigint"
#: A quote that is still open behind so much is taken for one that is not closed.
MAX_RECORD_BYTES: Final = 16 << 20


class Record(NamedTuple):
    """A record, or a line that is none, with the columns above."""

    line: bytes
    file: str
    number: int
    open: int | None = None


class Records:
    """Makes records of lines.

    Args:
      max_bytes: of a record.
    """

    def __init__(self, max_bytes: int = MAX_RECORD_BYTES) -> None:
        self._max_bytes = max_bytes
        self._file = ""
        self._number = 0  # of the last line
        self._lines: list[bytes] = []  # of a record that has not ended
        self._bytes = 0
        self._lost_since: int | None = None  # where a quote was opened, once its record is too long

    def add(self, file: str, line: bytes) -> list[Record]:
        """Take the next line, without the line feed; return the records that end with it."""
        before = []
        if file != self._file:
            before = self.end()
            self._file, self._number = file, 0
        self._number += 1
        lost_since = self._lost_since
        is_open = is_left_open(line, is_open=bool(self._lines) or lost_since is not None)
        if lost_since is not None:
            self._lost_since = lost_since if is_open else None
            return [*before, Record(line, file, self._number, lost_since)]
        self._lines.append(line)
        self._bytes += len(line) + 1  # with the line feed: empty lines take memory, too
        return [*before, *self._ended(is_open=is_open)]

    def end(self) -> list[Record]:
        """Return the lines of a record that has not ended: there are no more of its file."""
        lines, first = self._taken()
        self._lost_since = None
        return [Record(line, self._file, first + n, first) for n, line in enumerate(lines)]

    def _ended(self, *, is_open: bool) -> list[Record]:
        if not is_open:
            lines, first = self._taken()
            return [Record(b"\n".join(lines).removesuffix(b"\r"), self._file, first)]
        if self._bytes <= self._max_bytes:
            return []
        ended = self.end()
        self._lost_since = ended[0].number
        return ended

    def _taken(self) -> tuple[list[bytes], int]:
        """Return the lines of the record, and forget them, and the number of the first."""
        lines, self._lines, self._bytes = self._lines, [], 0
        return lines, self._number - len(lines) + 1


def records_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records of lines, which have the columns `line`, binary, and `file`."""
    records = Records()
    for batch in batches:
        places = zip(batch["file"].to_pylist(), batch["line"].to_pylist(), strict=True)
        yield _batch([one for file, line in places for one in records.add(file, line)])
    yield _batch(records.end())


def _batch(records: list[Record]) -> pa.RecordBatch:
    kinds = (pa.binary(), pa.string(), pa.int64(), pa.int64())
    columns = zip(*records, strict=True) if records else ((),) * len(kinds)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(Record._fields))
