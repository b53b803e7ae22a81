"""What jobs do with the topics that they read, beside reading them: whether they are there, and the group's place."""

import json
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from miniqueue.errors import ConfigError
from miniqueue.spark.jobs.running import Say
from miniqueue.spark.log_source import missing_topics
from miniqueue.spark.progress import move_groups
from miniqueue.spark.source import configured_client

WAITED_FOR: Final = "it is waited for"


def check_topics(spark: SparkSession, topics: Sequence[str], say: Say, *, otherwise: str = "") -> None:
    """Raise ConfigError where a topic is not there; where there is an `otherwise`, say that, and go on."""
    with configured_client(spark) as client:
        problems = missing_topics(client, topics)
    if problems and not otherwise:
        raise ConfigError(problems)
    for problem in problems:
        say(f"{problem}; {otherwise}")


def bring_group(spark: SparkSession, group: str, query: StreamingQuery) -> None:
    """Have a group be where a stream is that has ended, also one that found nothing new.

    Spark tells a source that a step is done when it plans the next one, and there is none.
    """
    last = query.lastProgress
    if last is not None:
        [source] = last.sources
        with configured_client(spark) as client:
            move_groups(client, group, json.loads(source.endOffset or "null") or {})
