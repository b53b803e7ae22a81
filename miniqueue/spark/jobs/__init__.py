"""Jobs of Spark for people, as `miniqueue pipeline` runs them, or any program that has a session.

    load      files   → topic     archive   topic → Parquet     replay   Parquet → topic
    stats    topic → figures by windows of time

Each is a NamedTuple that says what to do, and a function that does it, tells how it goes, and returns what was done.
docs/pipeline.md is for their users.
"""
