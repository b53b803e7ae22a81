"""Lines of CSV as rows: the first has the names of the columns, each of the others a row.

Where a quote is open at the end of a line, the row goes on in the next one. Then each file is read by one task, which
joins lines (`csv_records`). Else a file is read by many: where no line leaves a quote open, each is a row, or none.
"""

import csv
import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import Row, StringType, StructField, StructType

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs import csv_records
from miniqueue.spark.jobs.columns import named_twice
from miniqueue.spark.jobs.csv_quotes import BEHIND_A_QUOTE, LEFT_OPEN, QUOTED, ROW
from miniqueue.spark.jobs.text_lines import UNPARSED, Parser, lines_of, parsed, text_of

#: Otherwise Spark takes a backslash to be in front of a quote, and doubled quotes to be two.
_QUOTES: Final = {"escape": '"'}
_BEHIND: Final = "there is text behind a closing quote"
_INSIDE: Final = "there is a quote in a field that does not begin with one"
_RETURN: Final = "there is a carriage return in a field without quotes"
_NUL: Final = "there is a NUL"  # which Spark's parser takes for white space, and drops at the end of a field


def has_longer_rows(lines: DataFrame) -> bool:
    """Return whether there are rows of more than one line, or quotes that are not closed."""
    is_left_open = F.col("line").contains('"') & _is_whole("line", LEFT_OPEN)
    [found] = lines.agg(F.bool_or(is_left_open)).collect()
    return bool(found[0])


def joined_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the records of files as `text_lines` has lines, with `open` beside; it takes the settings WHOLE_FILES."""
    lines = lines_of(spark, paths, lineSep="\n").select(F.col("line").cast("binary"), "file")
    records = lines.mapInArrow(csv_records.records_of, csv_records.COLUMNS)
    return records.withColumn("line", F.col("line").cast("string"))


def csv_rows(lines: DataFrame, paths: Sequence[str], types: StructType | None) -> DataFrame:
    """Return the rows of lines, as `parsed` has them.

    Args:
      lines: see `text_lines`, or `joined_lines`.
      paths: where they stand, to be told.
      types: of the columns in their order; None for strings.

    Raises ConfigError where the first line does not name the columns.
    """
    first = text_of(lines).select("line", "file", F.is_valid_utf8("line").alias("is_text")).first()
    if first is None:
        raise ConfigError([f"{', '.join(paths)}: there is not even a line with the names of columns"])
    _check_others(lines, first)
    columns = _columns(_names(first), types)
    rows = lines.where(F.col("line") != first.line)
    parse: Parser = lambda fields, options: F.from_csv("line", fields.toDDL(), {**options, **_QUOTES})  # noqa: E731
    return parsed(rows, columns, parse, _fault(lines), unparsed=_miscounted(len(columns)))


def _miscounted(count: int) -> Column:
    """Return what is wrong with a row that is no row of so many columns: their number, as far as that is it."""
    bare = F.regexp_replace("line", QUOTED, "")
    found = F.length(bare) - F.length(F.replace(bare, F.lit(","))) + 1
    return F.when(
        found != count, F.concat(F.lit("its number of fields is "), found, F.lit(f", not {count}"))
    ).otherwise(UNPARSED)


def _fault(lines: DataFrame) -> Column:
    """Return what is wrong with the quotes of a row, or null."""
    line = F.col("line")
    is_wrong = (line.contains('"') | line.contains("\r")) & ~_is_whole("line", ROW)
    cause = F.when(line.rlike(f"^{BEHIND_A_QUOTE}"), _BEHIND).when(line.contains('"'), _INSIDE).otherwise(_RETURN)
    fault = F.when(line.contains("\0"), _NUL).when(is_wrong, cause)
    if "open" not in lines.columns:
        return fault
    never_closed = F.concat(F.lit("a quote that is opened in row "), "open", F.lit(" is not closed"))
    return F.when(F.col("open").isNotNull(), never_closed).otherwise(fault)


def _is_whole(line: str, pattern: str) -> Column:
    return F.col(line).rlike(rf"^(?:{pattern})\z")  # what Java takes `$` for comes before some ends of lines, too


def _check_others(lines: DataFrame, first: Row) -> None:
    """Raise ConfigError for a file that begins with another line than the first: its values are of other columns."""
    if len(lines.inputFiles()) == 1:
        return
    heads = _numbered(lines).groupBy("file").agg(F.min_by("line", "number").alias("line"))
    other = heads.where(F.col("line") != first.line).first()
    if other is not None:
        raise ConfigError([f"{other.file}: the first line is not that of {first.file}"])


def _numbered(lines: DataFrame) -> DataFrame:
    """Return lines of which each file has its first, with numbers that grow from there."""
    if "open" in lines.columns:
        return text_of(lines)
    begins = text_of(lines).where(F.col("_metadata.file_block_start") == 0)  # which is in one task, in its order
    return begins.withColumn("number", F.monotonically_increasing_id())


def _names(first: Row) -> list[str]:
    if not first.is_text:
        raise ConfigError([f"{first.file}: the first line is not UTF-8"])
    try:
        names = next(csv.reader([first.line], strict=True))
    except csv.Error as exc:
        raise ConfigError([f"{first.file}: the first line names no columns: {exc}"]) from exc
    if re.fullmatch(ROW, first.line) is None:
        raise ConfigError([f"{first.file}: the first line names no columns: {_INSIDE}"])
    if twice := named_twice(names):
        raise ConfigError([f"{first.file}: the first line has the column {twice[0]!r} twice"])  # one would be lost
    return names


def _columns(names: Sequence[str], types: StructType | None) -> StructType:
    kinds = [field.dataType for field in types] if types else [StringType()] * len(names)
    if len(kinds) != len(names):
        raise ConfigError([f"the schema has {len(kinds)} columns, the file {len(names)}: {', '.join(names)}"])
    return StructType([StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
