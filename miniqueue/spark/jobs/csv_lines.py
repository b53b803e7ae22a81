"""Lines of CSV as rows: the first has the names of the columns, each of the others a row."""

import csv
from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import Row, StringType, StructField, StructType

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.columns import named_twice
from miniqueue.spark.jobs.text_lines import parsed, text_of

#: Otherwise Spark takes a backslash to be in front of a quote, and doubled quotes to be two.
_QUOTES: Final = {"escape": '"'}


def csv_rows(lines: DataFrame, paths: Sequence[str], types: StructType | None) -> DataFrame:
    """Return the rows of lines, as `parsed` has them.

    Args:
      lines: see `text_lines`.
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
    return parsed(rows, columns, lambda fields, options: F.from_csv("line", fields.toDDL(), {**options, **_QUOTES}))


def _check_others(lines: DataFrame, first: Row) -> None:
    """Raise ConfigError for a file that begins with another line than the first: its values are of other columns."""
    if len(lines.inputFiles()) == 1:
        return
    begins = text_of(lines).where(F.col("_metadata.file_block_start") == 0)  # which is in one task, in its order
    numbered = begins.withColumn("number", F.monotonically_increasing_id())
    heads = numbered.groupBy("file").agg(F.min_by("line", "number").alias("line"))
    other = heads.where(F.col("line") != first.line).first()
    if other is not None:
        raise ConfigError([f"{other.file}: the first line is not that of {first.file}"])


def _names(first: Row) -> list[str]:
    if not first.is_text:
        raise ConfigError([f"{first.file}: the first line is not UTF-8"])
    try:
        names = next(csv.reader([first.line]))
    except csv.Error as exc:
        raise ConfigError([f"{first.file}: the first line names no columns: {exc}"]) from exc
    if twice := named_twice(names):
        raise ConfigError([f"{first.file}: the first line has the column {twice[0]!r} twice"])  # one would be lost
    return names


def _columns(names: Sequence[str], types: StructType | None) -> StructType:
    kinds = [field.dataType for field in types] if types else [StringType()] * len(names)
    if len(kinds) != len(names):
        raise ConfigError([f"the schema has {len(kinds)} columns, the file {len(names)}: {', '.join(names)}"])
    return StructType([StructField(name, kind) for name, kind in zip(names, kinds, strict=True)])
