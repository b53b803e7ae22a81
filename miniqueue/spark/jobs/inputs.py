"""Files as rows: Parquet, CSV with a line of names, JSON lines; what cannot be parsed is a row too, and says so.

    row        struct    the columns of the file; of JSON lines without a schema those that are asked for
    json       string    all columns as JSON; of JSON lines without a schema the line as it stands
    file       string    where it stands
    number     bigint    its place, from 1 on: the row of Parquet, the line of text; null where `is_numbered` says so
    line       string    its text; null in Parquet
    fault      string    why the text is not what the format takes; null where it is

Text is read as lines and parsed from there, so that the line of a row is at hand whatever turns out to be wrong with
it. Where rows of CSV have several lines, these are joined before, see `csv_lines`.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs import json_lines
from miniqueue.spark.jobs.columns import quoted, schema_of
from miniqueue.spark.jobs.csv_lines import csv_rows, has_longer_rows, joined_lines
from miniqueue.spark.jobs.text_lines import as_json, lines_of

FORMATS: Final = ("parquet", "csv", "json")
_ENDINGS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
#: What Spark says of a directory without Parquet.
_EMPTY: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


def format_of(path: str) -> str:
    """Return the format that the ending of a path means; raises ConfigError."""
    name = path.rstrip("/").removesuffix(".gz")
    for ending, found in _ENDINGS.items():
        if name.endswith(ending):
            return found
    raise ConfigError([f"{path}: the name does not say the format; -format does, one of {', '.join(FORMATS)}"])


def is_numbered(spark: SparkSession, paths: Sequence[str], format_name: str) -> bool:
    """Return whether rows have their places; of CSV if one has several lines, for which all of it is looked through."""
    return format_name == "parquet" or (format_name == "csv" and has_longer_rows(lines_of(spark, paths)))


def read_files(
    spark: SparkSession, paths: Sequence[str], format_name: str, schema: str, asked: Sequence[str], *, numbered: bool
) -> DataFrame:
    """Return the rows of files, with the columns above.

    Args:
      spark: a session.
      paths: files, directories or patterns, all of one format.
      format_name: one of FORMATS.
      schema: the columns, as SQL has them: `id long, name string`; "" for what the files say. CSV says strings.
      asked: names of columns that something is made of; there may be no such.
      numbered: what `is_numbered` says; then text takes the settings WHOLE_FILES.

    Raises ConfigError when the columns cannot be told.
    """
    if format_name == "parquet":
        return _parquet(spark, paths, schema)
    columns = schema_of(schema) if schema else None
    if format_name == "csv":
        return csv_rows(joined_lines(spark, paths) if numbered else lines_of(spark, paths), paths, columns)
    lines = lines_of(spark, paths)
    return json_lines.with_schema(lines, columns) if columns else json_lines.as_they_are(lines, asked)


def columns_in(spark: SparkSession, directory: str) -> list[str]:
    """Return the columns of the Parquet in a directory; none where it is empty or not there."""
    try:
        return spark.read.parquet(directory).columns
    except AnalysisException as exc:
        if exc.getCondition() in _EMPTY:
            return []
        raise


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
