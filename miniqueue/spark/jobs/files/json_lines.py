"""JSON lines as rows. Without a schema a message is its unchanged line, so that nothing of it can be lost.

Columns are then determined only for what is made of them. They are variants, which would truncate some numbers: those
with more than 38 digits, or 17 with an exponent, and those out of the range of doubles. Lines with such numbers are
bad.

Spark's parser of JSON takes the last of two members of one name, and the first of two objects. That would lose a value
without an error, so a line must also be one element of an array for the parser of variants, which is strict.

Does not know files.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructType

from miniqueue.spark.jobs.files.text_lines import fault_of, parsed, text_of

_SMALLEST: Final = 2.2250738585072014e-308
_STRINGS: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'  # possessive: in Java, others overflow the stack
#: Numbers that might be too long or too large. Most lines have none, and are not examined further.
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


_NO_JSON: Final = "it is not JSON"
_NO_OBJECT: Final = "it is not a JSON object"
_NOT_ONE: Final = "it is not one JSON object, or has a member twice"
_HALF: Final = "it has half of a surrogate pair, which is not text"
_BEYOND: Final = "it has a number with more digits than can be kept, or out of the range of doubles"
#: Escapes of the first half of a pair without the second after it, or of the second without the first before it.
_HALF_PAIR: Final = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
#: Appended to a line when it is checked. It is random, so no line can contain it.
_END: Final = uuid4().hex


def with_schema(lines: DataFrame, columns: StructType) -> DataFrame:
    """Return the rows of lines with the columns of a schema; the result has the columns of `parsed`."""
    return parsed(lines, columns, lambda fields, options: F.from_json("line", fields, options), _fault(_elements()))


def as_they_are(lines: DataFrame, asked: Sequence[str]) -> DataFrame:
    """Return lines as rows whose JSON is the line; their columns are the members asked for.

    If one of these is in no line, the columns are all members. The result has the columns of `parsed`.
    """
    names = _present(lines, asked)
    checked = text_of(lines).withColumn("elements", _elements())
    checked = checked.withColumn("members", F.try_variant_get("elements", "$[0]", "map<string,variant>"))
    faults = [_fault(F.col("elements")), *([F.when(is_beyond("line"), _BEYOND)] if names else [])]
    row = F.struct(*(F.col("members")[name].alias(name) for name in names))
    return checked.select(
        row.alias("row"), _trimmed().alias("json"), "file", "number", "line", fault_of(*faults).alias("fault")
    )


def _present(lines: DataFrame, asked: Sequence[str]) -> Sequence[str]:
    """Return the members asked for if all of them occur, which few lines usually show; otherwise all members."""
    names = F.json_object_keys("line")
    if all(not lines.where(F.array_contains(names, name)).isEmpty() for name in asked):
        return asked
    named = lines.select(F.explode(names).alias("name")).distinct().orderBy("name").collect()
    return [row.name for row in named] or asked


def _fault(elements: Column) -> Column:
    """Return why the column `line` is not exactly one object, without duplicate names; null if it is."""
    is_one = F.coalesce(F.try_variant_get(elements, "$[1]", "string") == _END, F.lit(False))
    is_no_object = F.json_object_keys("line").isNull()
    is_no_json = is_no_object & F.try_parse_json("line").isNull()
    broken = F.when(_has_half_pair("line"), _HALF).when(is_no_json, _NO_JSON).when(is_no_object, _NO_OBJECT)
    cause = broken.otherwise(_NOT_ONE)
    return F.when(~(is_one & _trimmed().startswith("{")), cause)


def _elements() -> Column:
    """Return the column `line` as the first element of an array; null if it is not JSON, or has a member twice.

    The parser ignores text after the end of an array, so a second element is appended, which must be found.
    """
    return F.try_parse_json(F.concat(F.lit("["), F.col("line"), F.lit(f',"{_END}"]')))


def _trimmed() -> Column:
    return F.btrim("line", F.lit(" \t\r\n"))  # the white space of JSON


def _has_half_pair(line: str) -> Column:
    return F.replace(line, F.lit("\\\\"), F.lit(" ")).rlike(_HALF_PAIR)  # an escaped backslash starts no escape
