"""`miniqueue pipeline`: Spark jobs between files and topics.

Read `pipeline`, the command line of the jobs, then `session`, which starts Spark, and `needs`, which reports what is
missing on this machine. Spark is an extra, so a module of `miniqueue.spark` is imported only in the functions that run
a job. The jobs themselves are in `miniqueue.spark.jobs`.
"""
