"""Durations mean what they mean in Go, and a day is 24 hours."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniqueue.errors import ConfigError
from miniqueue.server.config.durations import parse_duration, parse_positive_duration

SECONDS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
PARTS = st.tuples(st.integers(0, 9999), st.none() | st.integers(0, 999), st.sampled_from(sorted(SECONDS)))

# Most of these are from Go's time_test.go.
DURATIONS = [
    ("0", 0.0),
    ("+0", 0.0),
    ("-0", 0.0),
    ("0s", 0.0),
    ("5s", 5.0),
    ("1478s", 1478.0),
    ("-5s", -5.0),
    ("+5s", 5.0),
    ("5.0s", 5.0),
    ("5.s", 5.0),
    (".5s", 0.5),
    ("1.00400s", 1.004),
    ("100.00100s", 100.001),
    ("100ns", 1e-7),
    ("2us", 2e-6),
    ("12µs", 12e-6),
    ("12μs", 12e-6),
    ("500ms", 0.5),
    ("1m30s", 90.0),
    ("1.5h", 5400.0),
    ("3h30m", 12600.0),
    ("10.5s4m", 250.5),
    ("1h2m3s4ms5us6ns", 3723.004005006),
    ("0.9ns", 0.0),
    ("2d12h", 216_000.0),
    ("9223372036854775807ns", 9223372036.854775807),
]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_a_duration_is_read_as_in_go(text, seconds):
    assert parse_duration(text) == seconds


NO_DURATIONS = [
    "3",
    "-",
    "+",
    "s",
    ".",
    "-.",
    ".s",
    "+.s",
    "1w",
    "1S",
    "1e3s",
    "--1s",
    "00",
    "0x1s",
    "٣s",
    "1.2.3s",
    "1m3",
    "1sm",
    "1mss",
    "9223372036854775808ns",
    "3000000h",
]


@pytest.mark.parametrize("text", ["", "1 s", " 1s", "1s ", "1s\n", "9" * 5000 + "s", *NO_DURATIONS])
def test_a_text_that_is_not_a_duration_is_refused(text):
    with pytest.raises(ConfigError, match="invalid duration; must be numbers with units"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0", "0s", "-1s", "0.1ns"])
def test_a_positive_duration_is_more_than_zero(text):
    with pytest.raises(ConfigError, match="more than zero"):
        parse_positive_duration(text)


@given(st.lists(PARTS, min_size=1, max_size=8))
def test_parts_add_up_to_the_nanosecond(parts):
    text = "".join(f"{whole}{'' if part is None else f'.{part:03}'}{unit}" for whole, part, unit in parts)
    exact = sum((whole + Fraction(part or 0, 1000)) * SECONDS[unit] for whole, part, unit in parts)
    assert abs(Fraction(parse_duration(text)) - exact) <= Fraction(len(parts), 10**9) + exact / 2**50


@given(st.text(max_size=120))
def test_any_text_is_a_duration_or_a_problem(text):
    with contextlib.suppress(ConfigError):
        assert isinstance(parse_duration(text), float)
