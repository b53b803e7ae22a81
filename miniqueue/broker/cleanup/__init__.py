"""Removal of messages and data: expired messages, purges, retention, and disk space.

This room must not import the rooms that deliver messages (`consume`, `leases`). Read `expiry` first, which drops or
dead-letters expired messages; then `expiry_sweep`, which does so where no consumer reads, `purge`, which removes the
messages that an operator selects, and `retention`, which trims the logs of topics that retain messages. `disk_space`
returns the space of deleted data to the file system.
"""
