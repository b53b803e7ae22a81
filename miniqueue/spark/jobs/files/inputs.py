"""Files as rows: Parquet, CSV with a line of names, JSON lines; a line that cannot be parsed is a row with a fault.

    row        struct    the columns of the file; of JSON lines without a schema, the requested columns
    json       string    all columns as JSON; of JSON lines without a schema, the unchanged line
    file       string    the file of the row
    number     bigint    its number, from 1: the row of Parquet, the line of text; null unless `is_numbered`
    line       string    the text of the row; null for Parquet
    fault      string    why the text is not valid in its format; null if it is

Text is read as lines and parsed from there, so that the line of a row is available whatever its fault. If rows of CSV
have several lines, they are joined before; see `csv_lines`.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.files import json_lines
from miniqueue.spark.jobs.files.columns import quoted, schema_of
from miniqueue.spark.jobs.files.csv_lines import csv_rows, has_longer_rows, joined_lines
from miniqueue.spark.jobs.files.text_lines import as_json, lines_of

FORMATS: Final = ("parquet", "csv", "json")
_ENDINGS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
#: Spark's error conditions for a directory without Parquet.
_EMPTY: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def format_of(path: str) -> str:
    """Return the format of a path by its ending; raises ConfigError."""
    name = path.rstrip("/").removesuffix(".gz")
    for ending, format_name in _ENDINGS.items():
        if name.endswith(ending):
            return format_name
    raise ConfigError([f"{path}: unknown format; set -format to one of {', '.join(FORMATS)}"])


def is_numbered(spark: SparkSession, paths: Sequence[str], format_name: str) -> bool:
    """Whether rows have numbers: those of Parquet, and of CSV if a row has several lines; scans all of the CSV."""
    return format_name == "parquet" or (format_name == "csv" and has_longer_rows(lines_of(spark, paths)))


def read_files(
    spark: SparkSession, paths: Sequence[str], format_name: str, schema: str, asked: Sequence[str], *, numbered: bool
) -> DataFrame:
    """Return the rows of files, with the columns above.

    Args:
      spark: a session.
      paths: files, directories or patterns, all of one format.
      format_name: one of FORMATS.
      schema: the columns, in SQL: `id long, name string`; "": the columns of the files, which are strings for CSV.
      asked: names of the columns that a message is made of; they need not exist.
      numbered: the result of `is_numbered`; if true, text requires the settings WHOLE_FILES.

    Raises ConfigError if the columns cannot be determined.
    """
    if format_name == "parquet":
        return _parquet(spark, paths, schema)
    columns = schema_of(schema) if schema else None
    if format_name == "csv":
        return csv_rows(joined_lines(spark, paths) if numbered else lines_of(spark, paths), paths, columns)
    lines = lines_of(spark, paths)
    return json_lines.with_schema(lines, columns) if columns else json_lines.as_they_are(lines, asked)


def columns_in(spark: SparkSession, directory: str) -> list[str]:
    """Return the columns of the Parquet in a directory; none if it is empty or does not exist."""
    try:
        columns: list[str] = spark.read.parquet(directory).columns
    except AnalysisException as exc:
        if exc.getCondition() in _EMPTY:
            return []
        raise
    return columns


def _parquet(spark: SparkSession, paths: Sequence[str], schema: str) -> DataFrame:
    reader = spark.read.schema(schema) if schema else spark.read
    frame = reader.parquet(*paths)
    row = F.struct(*(F.col(quoted(name)) for name in frame.columns))
    return frame.select(
        row.alias("row"),
        as_json(row).alias("json"),
        F.col("_metadata.file_path").alias("file"),
        (F.col("_metadata.row_index") + 1).alias("number"),
        F.lit(None).cast("string").alias("line"),
        F.lit(None).cast("string").alias("fault"),
    )
