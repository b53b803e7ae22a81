"""miniqueue as a source and a sink of PySpark: `miniqueue[spark]`.

    from miniqueue.spark import register

    register(spark)
    spark.readStream.format("miniqueue").option("topic", "orders").load()

docs/spark.md describes the options. This package may import the client and `errors`, no other part of miniqueue. Read
in this order:

    options, zones, offsets      what a user asks for: options, times without a time zone, offsets and ranges
    rows, filters                messages as Arrow columns; conditions that make a read smaller
    log_source, readers          reading: pages of a log, and the readers that Spark calls
    progress                     a consumer group that follows a stream
    packing, publishing, waiting, dedup_check, writers    writing: ids against duplicates, waits, and what Spark calls
    source                       the data source that `register` adds to a session
    jobs/                        load, archive, replay and stats
"""

from miniqueue.spark.source import register

__all__ = ["register"]
