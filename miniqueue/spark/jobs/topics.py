"""What jobs do with the topics that they read, beside reading them."""

import json

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from miniqueue.spark.progress import move_groups
from miniqueue.spark.source import configured_client


def bring_group(spark: SparkSession, group: str, query: StreamingQuery) -> None:
    """Have a group be where a stream is that has ended, also one that found nothing new.

    Spark tells a source that a step is done when it plans the next one, and there is none.
    """
    last = query.lastProgress
    if last is not None:
        [source] = last.sources
        with configured_client(spark) as client:
            move_groups(client, group, json.loads(source.endOffset or "null") or {})
