"""Numbers in lines of JSON that variants would cut: what is beyond 38 digits, or 17 with an exponent, or a double.

Knows no files.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

_SMALLEST: Final = 2.2250738585072014e-308
_STRINGS: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'  # possessive: Java's others recurse, and long strings end in a fault
#: What may be too long or too large; most lines have nothing of the kind, and are looked at no closer.
_SUSPICIOUS: Final = r"[0-9.]{39}|[0-9][eE]"
_TOO_LONG: Final = r"[0-9]{39}|\.[0-9]{39}|[1-9][0-9.]{39}|[1-9][0-9]{17,}[eE]|[1-9][0-9.]{18,}[eE]"
_WITH_EXPONENT: Final = r"([0-9][0-9.]*[eE][-+]?[0-9]+)"


def is_beyond(line: str) -> Column:
    """Whether the column `line`, which is JSON, has a number that a variant would cut."""
    numbers = F.regexp_replace(line, _STRINGS, '""')
    large = F.exists(F.regexp_extract_all(numbers, F.lit(_WITH_EXPONENT)), _is_out_of_range)
    return F.when(F.col(line).rlike(_SUSPICIOUS), numbers.rlike(_TOO_LONG) | large).otherwise(F.lit(False))


def _is_out_of_range(number: Column) -> Column:
    is_zero = ~number.rlike("^[0.]*[1-9]")
    double = number.cast("double")
    return (double == float("inf")) | ((double < _SMALLEST) & ~is_zero)
