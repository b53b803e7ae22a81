"""Taxi rides from Parquet through a topic to Parquet: made, loaded, worked through with failures, archived, compared.

    making    the rides, as files                  working     one of the three workers, a process of its own
    running   all of it, in order                  sampling    what is measured each second
    checking  what must be equal in the end        drawing     the plots of docs/pipeline.md

It takes the extras spark and bench: `python -m benchmarks.rides --help`.
"""
