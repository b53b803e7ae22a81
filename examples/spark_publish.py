"""Push a Spark DataFrame into a topic, one message for each row, each partition over a connection of redis-py.

    make install EXTRAS=dev,client,spark
    .venv/bin/python examples/spark_publish.py --rows 100000

Shape: in, any DataFrame; out, one message for each row: its columns as a JSON object, UTF-8. Rows of a partition keep
their order, partitions are mixed. At least once: Spark runs a task that failed again, from the start of its partition.
A command carries many messages, all of which are published or none.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported where it is used, so that --help needs no Spark
    from pyspark.sql import DataFrame, Row

#: Of a command, which the broker takes up to 10,000 messages and 2 MiB of.
BATCH_MESSAGES = 5000
BATCH_BYTES = 1 << 20


def publish(frame: "DataFrame", host: str, port: int, topic: str) -> None:
    """Publish every row; when this returns all of them are durable."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - its usual name

    messages = frame.select(F.to_json(F.struct("*")).alias("message"))
    messages.foreachPartition(partial(publish_partition, host=host, port=port, topic=topic))


def publish_partition(rows: "Iterator[Row]", host: str, port: int, topic: str) -> None:
    """Runs on an executor: a connection for each partition, a round trip for each batch."""
    import redis  # noqa: PLC0415 - needed where the rows are, not where the job is planned

    with redis.Redis(host=host, port=port, socket_timeout=60) as client:  # the default is 5 s
        for batch in batches(message.encode() for (message,) in rows):
            client.execute_command("MPUBLISH", topic, *batch)  # raises if they were refused, so that Spark tries again


def batches(messages: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yield what one command can carry; a larger message goes alone."""
    batch: list[bytes] = []
    size_bytes = 0
    for message in messages:
        if batch and (len(batch) == BATCH_MESSAGES or size_bytes + len(message) > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(message)
        size_bytes += len(message)
    if batch:
        yield batch


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=6379)
    parser.add_argument("--topic", default="rows")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--master", default="local[2]")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - after the options are parsed
    except ImportError:
        sys.exit("pyspark is not installed; run make install EXTRAS=dev,client,spark")

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the executors need redis-py too
    spark = SparkSession.builder.master(options.master).appName("spark_publish").getOrCreate()
    frame = spark.range(options.rows).selectExpr("id", "id * id AS square")
    publish(frame, options.host, options.port, options.topic)
    print(f"published {frame.count()} rows to {options.topic}")
    spark.stop()


if __name__ == "__main__":
    main()
