"""A program on a cluster that carries out orders, each a line of JSON, in one session; it answers each with a line.

    python -m tests.spark.cluster.cluster_job

    {"do": "write", …} ─▶ {"result": …} or {"error": …}

Which cluster and which broker, and the secret for it, stand in Spark's configuration and not here.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from miniqueue.spark import register


def write(spark: SparkSession, topic: str, rows: int, tasks: int, skew: float = 0.0, gate: str = "") -> None:
    """Write numbers, with their first two digits as keys.

    With `skew` the first task has that part of them, and the last of these wait for a file, `gate`.
    """
    number = F.col("id").cast("string")
    frame = spark.range(0, rows, 1, tasks)
    if skew:
        edge = int(rows * skew)
        place = F.when(F.col("id") < edge, 0).otherwise(1 + (F.col("id") - edge) % (tasks - 1))
        # In a certain order: behind a shuffle a task that runs again may have its rows in another one.
        frame = frame.repartitionById(tasks, place.cast("int")).sortWithinPartitions("id")
        frame = frame.mapInArrow(lambda batches: held(batches, edge - 1, Path(gate)), frame.schema)
    columns = [number.alias("value"), F.substring(number, 1, 2).alias("key")]
    frame.select(*columns).write.format("miniqueue").mode("append").option("topic", topic).save()


def held(batches: Iterable[pa.RecordBatch], number: int, gate: Path) -> Iterator[pa.RecordBatch]:
    """Return batches, that with a number when there is a file."""
    for batch in batches:
        while number in batch.column("id").to_pylist() and not gate.exists():
            time.sleep(0.01)
        yield batch


def read(spark: SparkSession, topic: str, tasks: int) -> list[int]:
    """Return how many messages a topic has, and how many different ones."""
    messages = spark.read.format("miniqueue").option("minPartitions", tasks).load(topic)
    return [messages.count(), messages.select("value").distinct().count()]


def copy(spark: SparkSession, source: str, target: str, rows_at_once: int, checkpoint: str) -> list[int]:
    """Copy what there is as a stream; return how many rows each micro-batch had."""
    messages = spark.readStream.format("miniqueue").options(startingOffsets="earliest", minPartitions=4)
    rows = messages.option("maxMessagesPerTrigger", rows_at_once).load(source)
    keyed = rows.select("value", F.col("partition").cast("string").alias("key"))
    writer = keyed.writeStream.format("miniqueue").options(topic=target, checkpointLocation=checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


ACTS: Mapping[str, Callable[..., Any]] = MappingProxyType({"write": write, "read": read, "copy": copy})


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            answer = {"result": ACTS[told.pop("do")](spark, **told)}
        except Exception as exc:  # whatever it is, the test shows it, and the next one has the session
            answer = {"error": str(exc)}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
