"""Files to a topic: a message for each row; bad rows are set aside and counted, and the job goes on.

Rows are read once. Only when there were bad ones among them they are read again, to be set aside. CSV is looked through
before, for quotes that are open at the end of a line.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.spark.jobs.inputs import is_numbered, read_files
from miniqueue.spark.jobs.mapping import ColumnMapping
from miniqueue.spark.jobs.quarantine import set_aside
from miniqueue.spark.jobs.running import Say, having_set, observed, progress, told_in_words
from miniqueue.spark.jobs.text_lines import WHOLE_FILES

#: Text has names that differ in case only. Spark would take one for the other, and leave out what both have.
_EXACT_NAMES: Final[Mapping[str, str]] = MappingProxyType({"spark.sql.caseSensitive": "true"})


class Load(NamedTuple):
    """What to load.

    Attributes:
      topic: where the messages go.
      paths: files, directories or patterns.
      format_name: `parquet`, `csv` or `json`, which is JSON lines.
      run_id: a load that runs again with the same one adds nothing that is there.
      quarantine: a directory; bad rows go to a directory in it that is named as the run.
      schema: see `read_files`.
      mapping: which columns become what.
    """

    topic: str
    paths: Sequence[str]
    format_name: str
    run_id: str
    quarantine: str
    schema: str = ""
    mapping: ColumnMapping = ColumnMapping()


class Loaded(NamedTuple):
    """What was done: how many rows became messages, how many are bad, some of these in words, and where they are."""

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
    """Publish what is good; return how many rows there are, and how many are bad."""
    counts = Observation()
    counted = judged.observe(counts, F.count(F.lit(1)).alias("rows"), F.count("cause").alias("bad"))
    needed = ["value", *(["key"] if job.mapping.key else []), *(["headers"] if job.mapping.headers else [])]
    good = counted.where(F.col("cause").isNull()).select(*needed)
    good.write.format("miniqueue").mode("append").options(topic=job.topic, runId=job.run_id).save()
    found = observed(counts, judged)
    return found.get("rows", 0), found.get("bad", 0)
