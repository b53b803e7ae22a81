"""Delivery of messages to consumers that stay connected: streams, members of groups, and redrive.

This room must not import the protocol servers. Read `consumer` and `dispatcher` first: a consumer requests messages and
settles them, and the dispatcher serves the waiting consumers. Members share the partitions of a group: `membership`
assigns the partitions, `members` admits members and ends their sessions, `member_consumer` is a consumer with a
session, and `member_clock` measures sessions. `redrive` moves dead letters back as a consumer of their topic.
"""
