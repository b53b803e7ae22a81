"""Lines of CSV become records again, whatever stands in their fields, and a quote that is broken makes none of half."""

import csv
import io
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.spark.jobs.files.csv_records import ROW, Record, Records, is_left_open, records_of

TEXTS = st.text(st.sampled_from('",\n\r aé'), max_size=6)


def records_in(text: str, max_bytes: int = 100) -> list[tuple[int, str, int | None]]:
    """Return the place and text of each record of a file, and where a quote was opened that is not closed."""
    records = Records(max_bytes)
    lines = text.encode().removesuffix(b"\n").split(b"\n")
    found = [one for line in lines for one in records.add("a.csv", line)] + records.end()
    return [(one.number, one.line.decode(), one.open) for one in found]


def quoted(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if set(field) & set('",\r\n') else field


def is_row(text: str) -> bool:
    return re.fullmatch(ROW, text) is not None


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=4), min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_what_a_writer_of_csv_writes_is_read_as_it_was(rows, end):
    found = records_in("".join(",".join(map(quoted, row)) + end for row in rows))
    assert [next(csv.reader(io.StringIO(line, newline=""))) for _, line, _ in found] == rows
    assert all(is_row(line) and opened is None for _, line, opened in found)


def test_a_record_has_the_place_of_its_first_line_and_what_is_between_its_lines():
    text = 'id,zone\r\n1,"a\r\n\r\nb"\r\n2,"c\nd"\r\n\r\n3,e'
    assert records_in(text) == [
        (1, "id,zone", None),
        (2, '1,"a\r\n\r\nb"', None),
        (5, '2,"c\nd"', None),
        (7, "", None),
        (8, "3,e", None),
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('1,"a"b\n2,c', [1, 2]),
        ('1,5" pipe\n2,c', [1, 2]),
        ('1, "a, b"\n2,c', [1, 2]),
        ('1,"he said "so" and\nleft"\n2,c', [1, 3]),
        ('1,"he said "so, then" and\nleft"\n2,c', [1, 3]),
        ('"a"b,"c\nd"\n2,c', [1, 3]),
    ],
)
def test_a_row_with_a_broken_quote_is_none_and_ends_where_its_quotes_are_even(text, lines):
    found = records_in(text)
    assert [(number, opened) for number, _, opened in found] == [(number, None) for number in lines]
    assert [is_row(line) for _, line, _ in found] == [False, True]


def test_lines_behind_a_quote_that_is_not_closed_are_returned_alone():
    assert records_in('1,a\n2,"b\n3,c\n"4",d') == [(1, "1,a", None), (2, '2,"b', 2), (3, "3,c", 2), (4, '"4",d', 2)]


def test_a_quote_is_taken_for_open_no_longer_than_a_record_may_be():
    found = records_in('1,"' + "a" * 60 + "\n" + "b" * 60 + '\nc,c\n2"\n3,d', max_bytes=100)
    assert [(number, opened) for number, _, opened in found] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, None)]


def test_empty_lines_behind_an_open_quote_are_kept_no_longer_than_others():
    found = records_in('1,"' + "\n" * 150 + '"\n3,d', max_bytes=100)
    assert [opened for _, _, opened in found] == [1] * 151 + [None]


def test_a_quote_that_is_open_where_a_file_ends_is_closed_in_the_next_file():
    def batch(file: str, *lines: str) -> pa.RecordBatch:
        return pa.record_batch({"line": [line.encode() for line in lines], "file": [file] * len(lines)})

    batches = [batch("a", "1,a", '2,"b'), batch("a", 'c",2'), batch("a", '3,"d'), batch("b", '4,"'), batch("b", '"')]
    found = [Record(**row) for batch in records_of(iter(batches)) for row in batch.to_pylist()]
    assert found == [
        Record(b"1,a", "a", 1),
        Record(b'2,"b\nc",2', "a", 2),
        Record(b'3,"d', "a", 4, 4),
        Record(b'4,"\n"', "b", 1),
    ]


@pytest.mark.parametrize("text", ['"' * 1_000_001, '"a",' * 300_000 + '"', '"a"b' * 300_001, ',"' * 300_001])
def test_many_quotes_take_no_more_time_than_their_number(text):
    assert isinstance(is_left_open(text.encode(), is_open=False), bool)
    assert isinstance(is_row(text), bool)
