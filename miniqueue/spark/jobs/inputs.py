"""Files as rows: Parquet, CSV with a line of names, JSON lines; what cannot be parsed is a row too, and says so.

    row        struct    the columns of the file
    file       string    where it stands
    number     bigint    its place in a file of Parquet, from 1 on; null in text, see `quarantine`
    line       string    its text; null in Parquet
    fault      string    why the text is not what the format takes; null where it is

Spark's parser of JSON takes the last of two members of one name, and the first of two objects. Then a value would be
lost and nobody told, so a line must also be one element of an array for the parser of variants, which is strict. Of
digits that would be lost `json_numbers` knows.

Text is read as lines and parsed from there, so that the line of a row is at hand whatever turns out to be wrong with
it. A quoted line break in CSV is therefore not understood.
"""

import csv
from collections.abc import Sequence
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StringType, StructType

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.json_numbers import exact, is_beyond

FORMATS: Final = ("parquet", "csv", "json")
_ENDINGS: Final = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
#: What Spark says of a directory without Parquet.
_EMPTY: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
#: Where the parsers put the text of what they cannot parse.
_BROKEN: Final = "_broken"
_PARSING: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
#: Otherwise Spark takes a backslash to be in front of a quote, and doubled quotes to be two.
_PARSING_CSV: Final = {**_PARSING, "escape": '"'}
_UNPARSED: Final = "it cannot be parsed"
_NO_TEXT: Final = "it is not UTF-8"
_NOT_ONE: Final = "it is not one JSON object, or has a member twice"
_HALF: Final = "it has half of a surrogate pair, which is no text"
_BEYOND: Final = "it has a number with more digits than can be kept, or out of the range of doubles"
#: As escapes: the first half without the second behind it, or the second without the first in front of it.
_HALF_PAIR: Final = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
#: With what is in front of it; what stands in strings is none.
_EMPTY_OBJECT: Final = r'\G((?:[^"{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{(?!\s*\}))*+)\{\s*\}'
#: Stands behind a line that is looked at.
_END: Final = "the end of the line"


def format_of(path: str) -> str:
    """Return the format that the ending of a path means; raises ConfigError."""
    name = path.rstrip("/").removesuffix(".gz")
    for ending, found in _ENDINGS.items():
        if name.endswith(ending):
            return found
    raise ConfigError([f"{path}: the name does not say the format; -format does, one of {', '.join(FORMATS)}"])


def read_files(spark: SparkSession, paths: Sequence[str], format_name: str, schema: str = "") -> DataFrame:
    """Return the rows of files, with the columns above.

    Args:
      spark: a session.
      paths: files, directories or patterns, all of one format.
      format_name: one of FORMATS.
      schema: the columns, as SQL has them: `id long, name string`; "" for what the files say. CSV says strings.

    Raises ConfigError when there is no row to tell columns from.
    """
    if format_name == "parquet":
        return _parquet(spark, paths, schema)
    columns = _columns(schema) if schema else None
    parse = _csv if format_name == "csv" else _json
    return parse(spark, paths, columns).select(
        F.col("parsed").dropFields(_BROKEN).alias("row"),
        "file",
        F.lit(None).cast("bigint").alias("number"),
        "line",
        "fault",
    )


def columns_in(spark: SparkSession, directory: str) -> list[str]:
    """Return the columns of the Parquet in a directory; none where it is empty or not there."""
    try:
        return spark.read.parquet(directory).columns
    except AnalysisException as exc:
        if exc.getCondition() in _EMPTY:
            return []
        raise


def lines_of(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the lines of text files, and which file each is of."""
    return spark.read.text(list(paths)).select(F.col("value").alias("line"), F.col("_metadata.file_path").alias("file"))


def quoted(name: str) -> str:
    """Return a column's name as expressions have it, with whatever characters."""
    return f"`{name.replace('`', '``')}`"


def _columns(schema: str) -> StructType:
    columns = StructType.fromDDL(schema)
    if not isinstance(columns, StructType):  # it also takes the name of a single type
        raise ConfigError([f"a schema names columns, as in 'id long, name string', not {schema!r}"])
    return columns


def _parquet(spark: SparkSession, paths: Sequence[str], schema: str) -> DataFrame:
    reader = spark.read.schema(schema) if schema else spark.read
    frame = reader.parquet(*paths)
    return frame.select(
        F.struct(*(F.col(quoted(name)) for name in frame.columns)).alias("row"),
        F.col("_metadata.file_path").alias("file"),
        (F.col("_metadata.row_index") + 1).alias("number"),
        F.lit(None).cast("string").alias("line"),
        F.lit(None).cast("string").alias("fault"),
    )


def _csv(spark: SparkSession, paths: Sequence[str], columns: StructType | None) -> DataFrame:
    lines = lines_of(spark, paths)
    first = lines.first()
    if first is None:
        raise ConfigError([f"{', '.join(paths)}: there is not even a line with the names of columns"])
    names = next(csv.reader([first.line.removeprefix("\ufeff")]))
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        raise ConfigError([f"{first.file}: the first line has the column {twice[0]!r} twice"])  # one would be lost
    types = [field.dataType.simpleString() for field in columns] if columns else ["string"] * len(names)
    if len(types) != len(names):
        raise ConfigError([f"the schema has {len(types)} columns, the file {len(names)}: {', '.join(names)}"])
    fields = [f"{quoted(name)} {kind}" for name, kind in zip([*names, _BROKEN], [*types, "string"], strict=True)]
    parsed = F.from_csv("line", ", ".join(fields), _PARSING_CSV)
    return _parsed(lines.where(F.col("line") != first.line), parsed, F.when(_is_broken(), _UNPARSED))


def _json(spark: SparkSession, paths: Sequence[str], columns: StructType | None) -> DataFrame:
    lines, is_one = lines_of(spark, paths), _is_one_object("line")
    fault = F.when(~is_one & _has_half_pair("line"), _HALF).when(_is_broken(), _UNPARSED).when(~is_one, _NOT_ONE)
    if columns is None:
        fault = fault.when(is_beyond("line"), _BEYOND)
    found = columns or exact(spark.read.options(**_PARSING).json(_telling(lines.where(is_one))).schema)
    fields = [field for field in found if field.name != _BROKEN]
    if not fields:
        raise ConfigError([f"{', '.join(paths)}: there is no object in any line"])
    schema = StructType(fields).add(_BROKEN, StringType())
    return _parsed(lines, F.from_json("line", schema, _PARSING), fault)


def _telling(lines: DataFrame) -> DataFrame:
    """Return the lines that tell columns, with null for empty objects: Spark would leave out members that have them."""
    filled = F.regexp_replace("line", _EMPTY_OBJECT, "$1null")
    return lines.where(F.is_valid_utf8("line")).select(filled.alias("line"))


def _is_one_object(line: str) -> Column:
    """Whether a line is one value of JSON, with names that differ, and nothing behind it.

    What stands behind the end of an array is not looked at. So a second element must be there, behind the line.
    """
    array = F.try_parse_json(F.concat(F.lit("["), F.col(line), F.lit(f',"{_END}"]')))
    return F.coalesce(F.try_variant_get(array, "$[1]", "string") == _END, F.lit(False))


def _is_broken() -> Column:
    return F.col(f"parsed.{_BROKEN}").isNotNull()


def _has_half_pair(line: str) -> Column:
    return F.replace(line, F.lit("\\\\")).rlike(_HALF_PAIR)  # without backslashes that are text


def _parsed(lines: DataFrame, parsed: Column, fault: Column) -> DataFrame:
    """Return the lines that are not blank, what each means, and why that is not all of it, or null.

    `parsed` is of the column `line`; `fault` of that, and of the column `parsed`.
    """
    text = lines.where(F.trim("line") != "")
    found = F.when(~F.is_valid_utf8("line"), _NO_TEXT).otherwise(fault)
    return text.select("line", "file", parsed.alias("parsed")).withColumn("fault", found)
