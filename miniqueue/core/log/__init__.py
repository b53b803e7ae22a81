"""The log of a partition, and what belongs to it: delays, retention, dedup ids, and unique keys.

State in memory, and what the next commit writes of it. Must not know the store, the event loop, or topics.

Reading order: `partition` (append, cut, commit), `retention` (finished chunks that stay), `delayed` (messages that are
not due), `dedup_window` and `unique_keys` (which publishes are duplicates).
"""
