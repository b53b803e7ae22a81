"""A job that copies a topic into another one and into Parquet, as streams, until there is nothing more; then it ends.

    python -m tests.spark.copies <url> <directory>

It is made to be killed and started again.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from miniqueue.spark import register


def main(url: str, directory: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.miniqueue.url", url)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    print("ready", flush=True)
    source = spark.readStream.format("miniqueue").options(startingOffsets="earliest", maxMessagesPerTrigger=1000)
    rows = source.option("minPartitions", 2).load("from").select("value")
    copy = rows.writeStream.format("miniqueue").options(topic="to", batchMessages=100)
    archive = rows.writeStream.format("parquet").option("path", str(directory / "archive"))
    queries = [
        writer.option("checkpointLocation", str(directory / name)).trigger(availableNow=True).start()
        for name, writer in (("copying", copy), ("archiving", archive))
    ]
    for query in queries:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
