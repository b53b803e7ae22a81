"""Lines of CSV as records, which can have several lines; for a task that has the lines of a file in order.

    line       binary    the text of a record: its lines, joined with the line feeds between them
    file       string    the file of the record
    number     bigint    the number of its first line, from 1
    open       bigint    the line in which a quote was opened that is never closed; null if there is none

The text after such a quote cannot be divided into records: each of its lines is returned alone.

Quotes are those of RFC 4180, strictly: around a whole field, and doubled inside it. Does not know files or Spark.

    1,"a ""b"", c",d       a row
    1,"a                   leaves a quote open: the row continues in the next line
    1,"a"b                 not a row: text after a closing quote
    1,5" pipe              not a row: a quote in a field that does not start with one

The patterns have the same meaning in Java and in Python. They are possessive, so neither backtracks in long fields.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

#: A quoted field.
QUOTED: Final = r'"[^"]*+(?:""[^"]*+)*+"'
_FIELD: Final = rf'(?:{QUOTED}|[^",\r\n]*+)'
#: A whole row.
ROW: Final = rf"{_FIELD}(?:,{_FIELD})*+"
#: One or more lines, of which the last leaves a quote open. After a broken field, quotes are counted in pairs.
LEFT_OPEN: Final = rf'(?:(?:{QUOTED}(?=,)|(?:[^",][^,]*+)?+),)*+"[^"]*+(?:"[^"]*+"[^"]*+)*+'
#: The start of a text that has text after a closing quote.
TEXT_AFTER_QUOTE: Final = rf"(?:{_FIELD},)*+{QUOTED}"

_IS_LEFT_OPEN: Final = re.compile(LEFT_OPEN.encode())


def is_left_open(line: bytes, *, is_open: bool) -> bool:
    """Whether a quote is open after a line; `is_open` says whether one is open before it."""
    if b'"' not in line:
        return is_open
    return _IS_LEFT_OPEN.fullmatch(b'"' + line if is_open else line) is not None


COLUMNS: Final = "line binary, file string, number bigint, open bigint"
#: Maximum size of a record; a quote that is still open after it counts as never closed. Bounds the memory of a task.
MAX_RECORD_BYTES: Final = 16 << 20


class Record(NamedTuple):
    """A record, or a line that is not a record, with the columns above."""

    line: bytes
    file: str
    number: int
    open: int | None = None


class Records:
    """Joins lines to records.

    Args:
      max_bytes: maximum size of a record.
    """

    def __init__(self, max_bytes: int = MAX_RECORD_BYTES) -> None:
        self._max_bytes = max_bytes
        self._file = ""
        self._number = 0  # the number of the last line
        self._lines: list[bytes] = []  # the lines of the record that has not ended
        self._bytes = 0
        self._lost_since: int | None = None  # the line of an open quote whose record is too long

    def add(self, file: str, line: bytes) -> list[Record]:
        """Add the next line, without its line feed; return the records that end with it."""
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
        self._bytes += len(line) + 1  # counts the line feed, since empty lines need memory too
        return [*before, *self._ended(is_open=is_open)]

    def end(self) -> list[Record]:
        """Return the lines of the record that has not ended, at the end of its file."""
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
        """Remove the lines of the record; return them and the number of the first."""
        lines, self._lines, self._bytes = self._lines, [], 0
        return lines, self._number - len(lines) + 1


def records_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the records of lines, whose columns are `line`, binary, and `file`."""
    records = Records()
    for batch in batches:
        lines = zip(batch["file"].to_pylist(), batch["line"].to_pylist(), strict=True)
        yield _batch([record for file, line in lines for record in records.add(file, line)])
    yield _batch(records.end())


def _batch(records: list[Record]) -> pa.RecordBatch:
    kinds = (pa.binary(), pa.string(), pa.int64(), pa.int64())
    columns = zip(*records, strict=True) if records else ((),) * len(kinds)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(Record._fields))
