"""A job for a cluster: writes rows with keys to a topic, reads them back, and prints how many there are.

python -m tests.spark.cluster_job <master> <url> <rows>
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from miniqueue.spark import register
from tests.meta.modules import ROOT


def main(master: str, url: str, row_count: int) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.executorEnv.PYTHONPATH", str(ROOT))
        .config("spark.miniqueue.url", url)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    text = F.col("id").cast("string")
    rows = spark.range(0, row_count, 1, 20).select(text.alias("value"), F.substring(text, 1, 2).alias("key"))
    rows.write.format("miniqueue").mode("append").option("topic", "t").save()
    read = spark.read.format("miniqueue").option("minPartitions", 8).load("t")
    print("read", read.count(), read.select("value").distinct().count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
