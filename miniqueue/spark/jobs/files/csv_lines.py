"""Lines of CSV as rows: the first line has the names of the columns, each other line is a row.

If a quote is open at the end of a line, the row continues in the next line. One task then reads each file and joins its
lines (`csv_records`). If no line leaves a quote open, each line is a row or bad, and many tasks read a file.
"""

import csv
import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import Row, StringType, StructField, StructType

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.files import csv_records
from miniqueue.spark.jobs.files.columns import named_twice
from miniqueue.spark.jobs.files.csv_records import LEFT_OPEN, QUOTED, ROW, TEXT_AFTER_QUOTE
from miniqueue.spark.jobs.files.text_lines import UNPARSED, Parser, lines_of, parsed, text_of

#: By default, Spark treats a backslash as an escape, and a doubled quote as two quotes.
_QUOTES: Final = {"escape": '"'}
_AFTER_QUOTE: Final = "there is text after a closing quote"
_INSIDE: Final = "there is a quote in a field that does not start with one"
_RETURN: Final = "there is a carriage return in a field without quotes"
_NUL: Final = "there is a NUL"  # Spark's parser treats it as white space, and drops it at the end of a field


def has_longer_rows(lines: DataFrame) -> bool:
    """Whether a row has more than one line, or a quote is not closed."""
    is_left_open = F.col("line").contains('"') & _matches("line", LEFT_OPEN)
    [result] = lines.agg(F.bool_or(is_left_open)).collect()
    return bool(result[0])


def joined_lines(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the records of files with the columns of `text_lines`, and `open`; requires the settings WHOLE_FILES."""
    lines = lines_of(spark, paths, lineSep="\n").select(F.col("line").cast("binary"), "file")
    records = lines.mapInArrow(csv_records.records_of, csv_records.COLUMNS)
    return records.withColumn("line", F.col("line").cast("string"))


def csv_rows(lines: DataFrame, paths: Sequence[str], types: StructType | None) -> DataFrame:
    """Return the rows of lines, with the columns of `parsed`.

    Args:
      lines: the lines, from `lines_of` or `joined_lines`.
      paths: the paths of the files, for errors.
      types: the types of the columns, in their order; None: strings.

    Raises ConfigError if the first line does not name the columns.
    """
    first = text_of(lines).select("line", "file", F.is_valid_utf8("line").alias("is_text")).first()
    if first is None:
        raise ConfigError([f"{', '.join(paths)}: the first line, with the names of the columns, is missing"])
    _check_others(lines, first)
    columns = _columns(_names(first), types)
    rows = lines.where(F.col("line") != first.line)
    parse: Parser = lambda fields, options: F.from_csv("line", fields.toDDL(), {**options, **_QUOTES})  # noqa: E731
    return parsed(rows, columns, parse, _fault(lines), unparsed=_miscounted(len(columns)))


def _miscounted(count: int) -> Column:
    """Return the fault of a row that cannot be parsed: its number of fields, if that differs from `count`."""
    bare = F.regexp_replace("line", QUOTED, "")
    field_count = F.length(bare) - F.length(F.replace(bare, F.lit(","))) + 1
    return F.when(
        field_count != count, F.concat(F.lit("its number of fields is "), field_count, F.lit(f", not {count}"))
    ).otherwise(UNPARSED)


def _fault(lines: DataFrame) -> Column:
    """Return the fault of a row's quotes, or null."""
    line = F.col("line")
    is_wrong = (line.contains('"') | line.contains("\r")) & ~_matches("line", ROW)
    has_text_after = line.rlike(f"^{TEXT_AFTER_QUOTE}")
    cause = F.when(has_text_after, _AFTER_QUOTE).when(line.contains('"'), _INSIDE).otherwise(_RETURN)
    fault = F.when(line.contains("\0"), _NUL).when(is_wrong, cause)
    if "open" not in lines.columns:
        return fault
    never_closed = F.concat(F.lit("a quote that is opened in row "), "open", F.lit(" is not closed"))
    return F.when(F.col("open").isNotNull(), never_closed).otherwise(fault)


def _matches(line: str, pattern: str) -> Column:
    return F.col(line).rlike(rf"^(?:{pattern})\z")  # in Java, `$` also matches before a final line terminator


def _check_others(lines: DataFrame, first: Row) -> None:
    """Raise ConfigError if a file starts with another line than the first file: its values have other columns."""
    if len(lines.inputFiles()) == 1:
        return
    heads = _numbered(lines).groupBy("file").agg(F.min_by("line", "number").alias("line"))
    other = heads.where(F.col("line") != first.line).first()
    if other is not None:
        raise ConfigError([f"{other.file}: the first line differs from that of {first.file}"])


def _numbered(lines: DataFrame) -> DataFrame:
    """Return lines with increasing numbers, among them the first line of each file."""
    if "open" in lines.columns:
        return text_of(lines)
    begins = text_of(lines).where(F.col("_metadata.file_block_start") == 0)  # one task has this block, in order
    return begins.withColumn("number", F.monotonically_increasing_id())


def _names(first: Row) -> list[str]:
    if not first.is_text:
        raise ConfigError([f"{first.file}: the first line is not UTF-8"])
    try:
        names = next(csv.reader([first.line], strict=True))
    except csv.Error as exc:
        raise ConfigError([f"{first.file}: the first line does not name the columns: {exc}"]) from exc
    if re.fullmatch(ROW, first.line) is None:
        raise ConfigError([f"{first.file}: the first line does not name the columns: {_INSIDE}"])
    if twice := named_twice(names):  # one of the two values would be lost
        raise ConfigError([f"{first.file}: the first line has the column {twice[0]!r} twice"])
    return names


def _columns(names: Sequence[str], types: StructType | None) -> StructType:
    kinds = [field.dataType for field in types] if types else [StringType()] * len(names)
    if len(kinds) != len(names):
        raise ConfigError([f"the schema has {len(kinds)} columns, the file {len(names)}: {', '.join(names)}"])
    return StructType([StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
