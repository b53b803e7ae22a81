import pytest

from miniqueue.core.options.amounts import parse_delay
from miniqueue.errors import InvalidDelayError


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("5", 5), ("0.25", 0.25), (".5", 0.5), ("007", 7)])
def test_decimal_numbers_are_delays(text, seconds):
    assert parse_delay(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1_0", "nan", "inf", "1e3", "0x1", " 1", "1 ", "1.", "five", "\u0661", "1\n"]
)
def test_anything_else_is_no_delay(text):
    with pytest.raises(InvalidDelayError):
        parse_delay(text)
