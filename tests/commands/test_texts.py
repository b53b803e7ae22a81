"""Times, durations, sizes, and payloads as people read them."""

import pytest

from miniqueue.commands.shell.columns import Column, cells_of, plain_table, rich_table
from miniqueue.commands.shell.group_table import GROUP_COLUMNS
from miniqueue.commands.shell.texts import shown_age, shown_bytes, shown_duration, shown_time, terminal_payload
from miniqueue.commands.shell.values import moment_of


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0123, "12ms"),
        (1, "1s"),
        (1.54, "1.5s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m 59s"),
        (3600, "1h"),
        (90_061, "1d 1h"),
        (86_460, "1d"),
        (400 * 86_400, "400d"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert shown_duration(seconds) == text


def test_what_is_not_known_is_a_dash():
    assert shown_age(None) == "–"
    assert shown_time(0) == "–"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 50, "1024.0 TiB")])
def test_a_size_has_a_unit(count, text):
    assert shown_bytes(count) == text


def test_a_time_is_in_utc_and_any_number_is_one():
    assert shown_time(1_700_000_000_123) == "2023-11-14 22:13:20.123Z"
    assert shown_time(1 << 62) == "after 9999"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", 1_000_000.0),
        ("-15m", 999_100.0),
        ("-0", 1_000_000.0),
        ("1500", 1.5),
        ("1970-01-01T00:00:02Z", 2.0),
        ("1970-01-01T01:00:00+01:00", 0.0),
    ],
)
def test_a_time_is_read_in_several_forms(text, at):
    assert moment_of(text, lambda: 1_000_000.0).timestamp() == at


def test_a_terminal_gets_no_control_characters():
    assert terminal_payload(b"a\tb\nc") == b"a\tb\nc"
    assert terminal_payload(b"\x1b[2J\r\x00\xff\xc2\x9b") == rb"\x1b[2J\r\x00\xff\x9b"


def test_columns_are_as_wide_as_their_widest_cells_and_foreign_text_is_escaped():
    columns = [Column("name", "name"), Column("count", "count", is_number=True)]
    rows = [{"name": "a\x1b", "count": 1}, {"name": "", "count": 100_000}, {"name": ["x", "y"]}]
    assert plain_table(columns, [cells_of(columns, row) for row in rows]) == (
        "name    count\na\\x1b       1\n–      100000\nx, y        –\n"
    )


COLUMNS = [Column("topic", "topic"), Column("ready", "ready", is_number=True), Column("consumers", "c", is_number=True)]
LINES = [["orders.of.customers", "1234567", "0"]]


@pytest.mark.parametrize("width", [10, 20, 25, 30, 40, 80])
def test_a_narrow_terminal_cuts_no_number(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert "1234567" in rich_table(COLUMNS, LINES)


def test_a_title_is_folded_between_words_if_there_is_room_for_each_word(monkeypatch):
    columns = [Column("step", "step"), *(Column(title, "x", is_number=True) for title in ("messages", "p50 ms"))]
    monkeypatch.setenv("COLUMNS", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    first, second, *_ = rich_table(columns, [["publish", "1", "0.1"]]).splitlines()
    assert (first.split(), second.split()) == (["p50"], ["step", "messages", "ms"])


def test_the_longest_words_of_titles_are_folded_first(monkeypatch):
    columns = [Column(title, "x", is_number=True) for title in ("acknowledged", "leased", "delayed")]
    monkeypatch.setenv("COLUMNS", "25")
    monkeypatch.setenv("NO_COLOR", "1")
    first, second, *_ = rich_table(columns, [["1", "2", "3"]]).splitlines()
    assert (first.split(), second.split()) == (["acknowle"], ["dged", "leased", "delayed"])


def test_titles_of_groups_are_not_folded_on_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    line = ["analytics", *["123"] * (len(GROUP_COLUMNS) - 2), "no"]
    assert rich_table(GROUP_COLUMNS, [line]).split("\n")[0].split() == [column.title for column in GROUP_COLUMNS]


def test_a_terminal_that_is_too_narrow_for_a_table_shows_a_line_for_each_cell(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert rich_table(COLUMNS, LINES * 2) == "\n".join(
        ["topic      orders.of.customers\nready      1234567\nconsumers  0\n"] * 2
    )
