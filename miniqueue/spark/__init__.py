"""miniqueue as a source and a sink of PySpark: `miniqueue[spark]`.

    from miniqueue.spark import register

    register(spark)
    spark.readStream.format("miniqueue").option("topic", "orders").load()

Uses the client and nothing else of miniqueue. docs/spark.md has the options.
"""

from miniqueue.spark.source import register

__all__ = ["register"]
