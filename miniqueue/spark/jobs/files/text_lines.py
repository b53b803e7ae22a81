"""Lines of text files, and the rows that Spark's parsers make of them; does not know formats.

    line       string    the text of the line
    file       string    the file of the line
    number     bigint    its number, from 1, or null: a task does not know at which line its part of a file starts

The fault of a line is the fault of its row; see `inputs`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StringType, StructType

#: A parser: from the columns of a row and Spark's options to the row that it makes of the column `line`.
Parser: TypeAlias = Callable[[StructType, Mapping[str, str]], Column]

UNPARSED: Final = "it cannot be parsed"
_NO_TEXT: Final = "it is not UTF-8"
#: More than the size of any file. If opening a file costs as much as a task may read, each file has its own task.
_ALL_BYTES: Final = str(1 << 40)
#: Settings with which each file is read by one task, in its order.
WHOLE_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {"spark.sql.files.maxPartitionBytes": _ALL_BYTES, "spark.sql.files.openCostInBytes": _ALL_BYTES}
)


def lines_of(spark: SparkSession, paths: Sequence[str], **options: str) -> DataFrame:
    """Return the lines of text files, with their files; `options` are options of Spark's reader."""
    lines = spark.read.options(**options).text(list(paths))
    nowhere = F.lit(None).cast("bigint")
    return lines.select(
        F.col("value").alias("line"), F.col("_metadata.file_path").alias("file"), nowhere.alias("number")
    )


def text_of(lines: DataFrame) -> DataFrame:
    """Return the lines that are not blank."""
    return lines.where(F.trim("line") != "")


def fault_of(*faults: Column) -> Column:
    """Return the fault of the column `line`: that it is not UTF-8, or the first of `faults` that is not null."""
    return F.when(~F.is_valid_utf8("line"), _NO_TEXT).otherwise(F.coalesce(*faults))


def as_json(row: str | Column) -> Column:
    """Return a row as JSON with all of its columns, including those that are null."""
    return F.to_json(row, {"ignoreNullFields": "false"})


def parsed(
    lines: DataFrame, columns: StructType, parse: Parser, *faults: Column, unparsed: str | Column = UNPARSED
) -> DataFrame:
    """Parse lines; return `row`, `json`, `file`, `number`, `line` and `fault`, which `inputs` describes.

    Args:
      lines: the lines, with the columns above.
      columns: the columns of the row, at least one.
      parse: the parser.
      faults: faults of the column `line`, in addition to those that the parser detects, or null.
      unparsed: the fault of a line that the parser rejects.
    """
    broken = "_" * (1 + max(map(len, columns.names)))  # the column of unparsable text; no column has this name
    fields = StructType(list(columns)).add(broken, StringType())
    row = parse(fields, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": broken})
    is_unparsed = F.col(f"parsed.{broken}").isNotNull()
    fault = fault_of(*faults, F.when(is_unparsed, unparsed))
    rows = text_of(lines).withColumn("parsed", row).withColumn("fault", fault)
    rows = rows.withColumn("row", F.col("parsed").dropFields(broken))
    return rows.select("row", as_json("row").alias("json"), "file", "number", "line", "fault")
