"""Lines of text files, and the rows that parsers of Spark make of them; knows no format.

    line       string    its text
    file       string    where it stands
    number     bigint    its place there, from 1 on, where it is known: a task does not know where its part begins

What is wrong with a line is a row's fault, see `inputs`.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StringType, StructType

#: Takes the columns of a row and options of Spark's; returns the row that a parser makes of the column `line`.
Parser: TypeAlias = Callable[[StructType, Mapping[str, str]], Column]

UNPARSED: Final = "it cannot be parsed"
_NO_TEXT: Final = "it is not UTF-8"
#: More than any file has. A file costs as much to open as a task may read, so each has a task of its own.
_ALL_BYTES: Final = str(1 << 40)
#: Settings with which each file is read by one task, in its order.
WHOLE_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {"spark.sql.files.maxPartitionBytes": _ALL_BYTES, "spark.sql.files.openCostInBytes": _ALL_BYTES}
)


def lines_of(spark: SparkSession, paths: Sequence[str], **options: str) -> DataFrame:
    """Return the lines of text files, and which file each is of; `options` are those of Spark's reader."""
    lines = spark.read.options(**options).text(list(paths))
    nowhere = F.lit(None).cast("bigint")
    return lines.select(
        F.col("value").alias("line"), F.col("_metadata.file_path").alias("file"), nowhere.alias("number")
    )


def text_of(lines: DataFrame) -> DataFrame:
    """Return the lines that are not blank."""
    return lines.where(F.trim("line") != "")


def fault_of(*faults: Column) -> Column:
    """Return what is wrong with the column `line`: that it is no text, or the first of these that is not null."""
    return F.when(~F.is_valid_utf8("line"), _NO_TEXT).otherwise(F.coalesce(*faults))


def as_json(row: str | Column) -> Column:
    """Return a row as JSON with all of its columns; null is null."""
    return F.to_json(row, {"ignoreNullFields": "false"})


def parsed(
    lines: DataFrame, columns: StructType, parse: Parser, *faults: Column, unparsed: str | Column = UNPARSED
) -> DataFrame:
    """Return what a parser makes of lines: `row`, `json`, `file`, `number`, `line` and `fault`, as `inputs` has them.

    Args:
      lines: as above.
      columns: of the row, one at least.
      parse: the parser.
      faults: of the column `line`: what is wrong with it beside what the parser finds, or null.
      unparsed: what is wrong with a line that the parser does not take.
    """
    broken = "_" * (1 + max(map(len, columns.names)))  # where a parser puts what it cannot parse; no column's name
    fields = StructType(list(columns)).add(broken, StringType())
    row = parse(fields, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": broken})
    is_unparsed = F.col(f"parsed.{broken}").isNotNull()
    fault = fault_of(*faults, F.when(is_unparsed, unparsed))
    rows = text_of(lines).withColumn("parsed", row).withColumn("fault", fault)
    rows = rows.withColumn("row", F.col("parsed").dropFields(broken))
    return rows.select("row", as_json("row").alias("json"), "file", "number", "line", "fault")
