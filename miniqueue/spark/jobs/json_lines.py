"""JSON lines as rows. Without a schema a message is its line, so that nothing of it can be lost.

Columns are then found only for what is made of them: they are variants, which keep numbers as `json_numbers` has it.

Spark's parser of JSON takes the last of two members of one name, and the first of two objects. Then a value would be
lost and nobody told, so a line must also be one element of an array for the parser of variants, which is strict.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from miniqueue.spark.jobs.json_numbers import is_beyond
from miniqueue.spark.jobs.text_lines import fault_of, parsed, text_of

_NO_JSON: Final = "it is no JSON"
_NO_OBJECT: Final = "it is no JSON object"
_NOT_ONE: Final = "it is not one JSON object, or has a member twice"
_HALF: Final = "it has half of a surrogate pair, which is no text"
_BEYOND: Final = "it has a number with more digits than can be kept, or out of the range of doubles"
#: As escapes: the first half without the second behind it, or the second without the first in front of it.
_HALF_PAIR: Final = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
#: Stands behind a line that is looked at; who writes lines cannot know it.
_END: Final = uuid4().hex


def with_schema(lines: DataFrame, columns: StructType) -> DataFrame:
    """Return the rows of lines with the columns of a schema, as `parsed` has them."""
    return parsed(lines, columns, lambda fields, options: F.from_json("line", fields, options), _fault(_elements()))


def as_they_are(lines: DataFrame, asked: Sequence[str]) -> DataFrame:
    """Return the rows of lines, whose JSON they are; columns are the members asked for, or all where one is in no line.

    What is returned has the columns of `parsed`.
    """
    names = _present(lines, asked)
    looked_at = text_of(lines).withColumn("elements", _elements())
    looked_at = looked_at.withColumn("members", F.try_variant_get("elements", "$[0]", "map<string,variant>"))
    faults = [_fault(F.col("elements")), *([F.when(is_beyond("line"), _BEYOND)] if names else [])]
    row = F.struct(*(F.col("members")[name].alias(name) for name in names))
    return looked_at.select(
        row.alias("row"), _trimmed().alias("json"), "file", "number", "line", fault_of(*faults).alias("fault")
    )


def _present(lines: DataFrame, asked: Sequence[str]) -> Sequence[str]:
    """Return the members asked for if there are such, for which few lines are read, or none at all; else all."""
    names = F.json_object_keys("line")
    if all(not lines.where(F.array_contains(names, name)).isEmpty() for name in asked):
        return asked
    named = lines.select(F.explode(names).alias("name")).distinct().orderBy("name").collect()
    return [found.name for found in named] or asked


def _fault(elements: Column) -> Column:
    """Return why the column `line` is not one object, with names that differ, and nothing behind it; or null."""
    is_one = F.coalesce(F.try_variant_get(elements, "$[1]", "string") == _END, F.lit(False))
    is_no_object = F.json_object_keys("line").isNull()
    is_no_json = is_no_object & F.try_parse_json("line").isNull()
    broken = F.when(_has_half_pair("line"), _HALF).when(is_no_json, _NO_JSON).when(is_no_object, _NO_OBJECT)
    cause = broken.otherwise(_NOT_ONE)
    return F.when(~(is_one & _trimmed().startswith("{")), cause)


def _elements() -> Column:
    """Return the column `line` as the first element of an array; null where it is no JSON, or has a member twice.

    What stands behind the end of an array is not looked at. So a second element must be there, behind the line.
    """
    return F.try_parse_json(F.concat(F.lit("["), F.col("line"), F.lit(f',"{_END}"]')))


def _trimmed() -> Column:
    return F.btrim("line", F.lit(" \t\r\n"))  # what is blank in JSON


def _has_half_pair(line: str) -> Column:
    return F.replace(line, F.lit("\\\\"), F.lit(" ")).rlike(_HALF_PAIR)  # a blank for a backslash that is text
