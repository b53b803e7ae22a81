"""Numbers in lines of JSON, so that none is cut and nobody told: they are kept as they are, or their row is bad.

    inferred as        kept as      exact
    bigint, decimal    the same     all that it is inferred from
    double             variant      up to 38 digits, or 17 with an exponent, within the range of doubles
    string             variant      the same: there may be numbers in other lines

Knows no files.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import ArrayType, DataType, DoubleType, StringType, StructField, StructType, VariantType

_SMALLEST: Final = 2.2250738585072014e-308
_STRINGS: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'  # possessive: Java's others recurse, and long strings end in a fault
#: What may be too long or too large; most lines have nothing of the kind, and are looked at no closer.
_SUSPICIOUS: Final = r"[0-9]{18}|[0-9.]{39}|[0-9][eE]"
_TOO_LONG: Final = r"[0-9]{39}|\.[0-9]{39}|[1-9][0-9.]{39}|[1-9][0-9]{17,}[eE]|[1-9][0-9.]{18,}[eE]"
_WITH_EXPONENT: Final = r"([0-9][0-9.]*[eE][-+]?[0-9]+)"


def exact(found: StructType) -> StructType:
    """Return columns that Spark has inferred with variants where digits of a number might be cut."""
    return StructType([StructField(field.name, _exact(field.dataType)) for field in found])


def _exact(found: DataType) -> DataType:
    match found:
        case DoubleType() | StringType():
            return VariantType()
        case ArrayType():
            return ArrayType(_exact(found.elementType))
        case StructType():
            return exact(found)
    return found


def is_beyond(line: str) -> Column:
    """Whether the column `line`, which is JSON, has a number that even those types would cut."""
    numbers = F.regexp_replace(line, _STRINGS, '""')
    large = F.exists(F.regexp_extract_all(numbers, F.lit(_WITH_EXPONENT)), _is_out_of_range)
    return F.when(F.col(line).rlike(_SUSPICIOUS), numbers.rlike(_TOO_LONG) | large).otherwise(F.lit(False))


def _is_out_of_range(number: Column) -> Column:
    is_zero = ~number.rlike("^[0.]*[1-9]")
    double = number.cast("double")
    return (double == float("inf")) | ((double < _SMALLEST) & ~is_zero)
