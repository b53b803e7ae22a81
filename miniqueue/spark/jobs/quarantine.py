"""Where bad rows go: JSON lines that say of which file and row each is, why it is bad, and what it was.

    {"file":"file:///in/a.csv","row":17,"cause":"its number of fields is 4, not 3","record":"1,2,3,4"}

A task does not know at which line of a file its part begins. So lines are counted only if there are bad ones, in a read
of its own that leaves files whole: then the numbers that Spark gives to the rows of a task are those of the lines. Rows
whose places are known are taken as they are.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.spark.jobs.running import having_set
from miniqueue.spark.jobs.text_lines import WHOLE_FILES, lines_of

#: The lower bits of the numbers that Spark gives to rows; the upper ones are the task.
_ROW_IN_TASK: Final = (1 << 33) - 1
_EXAMPLES: Final = 5


def set_aside(judged: DataFrame, paths: Sequence[str], *, is_numbered: bool, directory: str) -> list[str]:
    """Write the bad ones of judged rows to a directory, in place of what is there; return some of them in words."""
    spark = judged.sparkSession
    bad = judged.where(F.col("cause").isNotNull())
    with having_set(spark, WHOLE_FILES):
        numbered = bad if is_numbered else _with_lines(spark, bad, paths)
        record = F.coalesce("line", F.to_json("row")) if is_numbered else F.col("line")
        rows = numbered.select("file", F.col("number").alias("row"), "cause", record.alias("record"))
        rows.write.mode("overwrite").json(directory)
    written = spark.read.schema("file string, row bigint, cause string").json(directory)
    examples = written.orderBy("file", "row").limit(_EXAMPLES).collect()
    return [f"{one.file}, row {one.row}: {one.cause}" for one in examples]


def _with_lines(spark: SparkSession, bad: DataFrame, paths: Sequence[str]) -> DataFrame:
    number = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_IN_TASK)) + 1
    lines = lines_of(spark, paths).select("file", "line", number.alias("number"))
    causes = bad.select("file", "line", "cause").distinct()
    return lines.join(causes, ["file", "line"])
