"""Loads files into a topic: a message for each row; bad rows are set aside and counted, and the job continues.

Rows are read once. Only if there are bad rows, they are read again to be set aside. CSV is scanned before, for quotes
that are open at the end of a line.

Bad rows are written as JSON lines, with the file, the row, the cause, and the text of the row:

    {"file":"file:///in/a.csv","row":17,"cause":"its number of fields is 4, not 3","record":"1,2,3,4"}

A task does not know at which line of a file its part starts. Lines are therefore counted only if there are bad rows, in
a separate read that does not divide files: the numbers that Spark gives to the rows of a task are then those of the
lines. If the numbers of the rows are known already, they are used.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.spark.jobs.files.inputs import is_numbered, read_files
from miniqueue.spark.jobs.files.mapping import ColumnMapping
from miniqueue.spark.jobs.files.text_lines import WHOLE_FILES, lines_of
from miniqueue.spark.jobs.running import Say, having_set, observed, progress, told_in_words

#: The lower bits of the numbers that Spark gives to rows; the upper ones are the task.
_ROW_IN_TASK: Final = (1 << 33) - 1
#: Number of bad rows that are described in the result.
_EXAMPLES: Final = 5


def set_aside(judged: DataFrame, paths: Sequence[str], *, is_numbered: bool, directory: str) -> list[str]:
    """Write the bad rows to a directory, replacing its content; return descriptions of some of them."""
    spark = judged.sparkSession
    bad = judged.where(F.col("cause").isNotNull())
    with having_set(spark, WHOLE_FILES):
        numbered = bad if is_numbered else _with_lines(spark, bad, paths)
        record = F.coalesce("line", F.to_json("row")) if is_numbered else F.col("line")
        rows = numbered.select("file", F.col("number").alias("row"), "cause", record.alias("record"))
        rows.write.mode("overwrite").json(directory)
    written = spark.read.schema("file string, row bigint, cause string").json(directory)
    examples = written.orderBy("file", "row").limit(_EXAMPLES).collect()
    return [f"{row.file}, row {row.row}: {row.cause}" for row in examples]


def _with_lines(spark: SparkSession, bad: DataFrame, paths: Sequence[str]) -> DataFrame:
    number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_IN_TASK)) + 1
    lines = lines_of(spark, paths).select("file", "line", number.alias("number"))
    causes = bad.select("file", "line", "cause").distinct()
    return lines.join(causes, ["file", "line"])


#: Names in text files can differ in case only. By default, Spark would confuse them and drop their values.
_EXACT_NAMES: Final[Mapping[str, str]] = MappingProxyType({"spark.sql.caseSensitive": "true"})


class Load(NamedTuple):
    """A load job.

    Attributes:
      topic: the topic to publish to.
      paths: files, directories or patterns.
      format_name: `parquet`, `csv` or `json`, which is JSON lines.
      run_id: identifies the load: if it is run again with the same id, it publishes no message twice.
      quarantine: the directory for bad rows, which go to a subdirectory named after the run.
      schema: the columns, see `read_files`.
      mapping: the parts of a message, and the columns that they come from.
    """

    topic: str
    paths: Sequence[str]
    format_name: str
    run_id: str
    quarantine: str
    schema: str = ""
    mapping: ColumnMapping = ColumnMapping()


class Loaded(NamedTuple):
    """The result of a load: rows published, bad rows, descriptions of some of these, and their directory."""

    published: int
    bad: int
    examples: Sequence[str]
    set_aside_in: str


def load(spark: SparkSession, job: Load, say: Say) -> Loaded:
    """Load files; raises ConfigError, or JobFailedError, after which the same job can run again."""
    directory = f"{job.quarantine.rstrip('/')}/{job.run_id}"
    with told_in_words(), progress(spark, f"load {job.topic}", say):
        numbered = is_numbered(spark, job.paths, job.format_name)
        with having_set(spark, _settings(job.format_name, numbered=numbered)):
            rows = read_files(spark, job.paths, job.format_name, job.schema, job.mapping.asked, numbered=numbered)
            judged = job.mapping.judged(rows)
            count, bad = _publish(judged, job)
            examples = set_aside(judged, job.paths, is_numbered=numbered, directory=directory) if bad else []
    return Loaded(count - bad, bad, examples, directory if bad else "")


def _settings(format_name: str, *, numbered: bool) -> Mapping[str, str]:
    if format_name == "parquet":
        return {}
    return {**_EXACT_NAMES, **(WHOLE_FILES if numbered else {})}


def _publish(judged: DataFrame, job: Load) -> tuple[int, int]:
    """Publish the good rows; return the number of all rows and of bad rows."""
    counts = Observation()
    counted = judged.observe(counts, F.count(F.lit(1)).alias("rows"), F.count("cause").alias("bad"))
    needed = ["value", *(["key"] if job.mapping.key else []), *(["headers"] if job.mapping.headers else [])]
    good = counted.where(F.col("cause").isNull()).select(*needed)
    good.write.format("miniqueue").mode("append").options(topic=job.topic, runId=job.run_id).save()
    by_name = observed(counts, judged)
    return by_name.get("rows", 0), by_name.get("bad", 0)
