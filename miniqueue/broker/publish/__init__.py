"""Publishing: adds messages to topics, detects duplicates, and makes room in topics that are full.

Read `publisher` first, which adds messages to partitions; then `duplicates` and `unique`, for publishes with a dedup
id or a unique key; then `overflow`, which drops or dead-letters the oldest messages of a topic over its limits.
This room must not import the rooms that deliver messages (`consume`, `leases`); it must not know the protocols.
"""
