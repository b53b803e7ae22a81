"""Jobs of Spark, as `miniqueue pipeline` runs them, or any program that has a session.

    load      files → topic      archive   topic → Parquet     replay   Parquet → topic
    stats     topic → figures by windows of time

Each job is a NamedTuple that describes it, and a function that carries it out, reports its progress, and returns what
was done. docs/pipeline.md is the users' page. The rooms must not know the command line (`tools`). Read in this order:

    running, stopping      progress, errors in words, streams until they end; signals
    directories            steps and checkpoints on the file system of Spark
    files/, load           files as rows; bad rows are set aside
    archive, replay        to Parquet and back
    waits, figures, stats  how long messages waited, rows of the result, counting by windows
"""
