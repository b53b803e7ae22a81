"""A job of three streams, which runs until there is nothing more, and then ends; made to be killed and started again.

python -m tests.spark.cluster.copies <url> <directory> <rows of a micro-batch>

topic `from` ─▶ topic `to`      topic `from` ─▶ Parquet in `archive`      Parquet in `rows` ─▶ topic `loaded`
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from miniqueue.spark import register


def main(url: str, directory: Path, rows_at_once: int) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")  # a task whose Python worker is killed runs again
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.miniqueue.url", url)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    print("ready", flush=True)
    messages, rows = _messages(spark, rows_at_once), _rows(spark, directory / "rows")
    batch = rows_at_once // 10
    writers = {
        "copying": messages.writeStream.format("miniqueue").options(topic="to", batchMessages=batch),
        "archiving": messages.writeStream.format("parquet").option("path", str(directory / "archive")),
        "loading": rows.writeStream.format("miniqueue").options(topic="loaded", batchMessages=batch),
    }
    queries = [
        writer.option("checkpointLocation", str(directory / name)).trigger(availableNow=True).start()
        for name, writer in writers.items()
    ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


def _messages(spark: SparkSession, rows_at_once: int) -> DataFrame:
    source = spark.readStream.format("miniqueue").options(startingOffsets="earliest", minPartitions=2)
    return source.option("maxMessagesPerTrigger", rows_at_once).load("from").select("value")


def _rows(spark: SparkSession, directory: Path) -> DataFrame:
    """Return the rows of files, two files at a time, each of which has half of a micro-batch."""
    return spark.readStream.schema("key string, value binary").option("maxFilesPerTrigger", 2).parquet(str(directory))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
