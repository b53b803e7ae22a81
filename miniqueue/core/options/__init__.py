"""The options of requests, parsed once for every protocol.

Pure parsers of words and texts: a protocol passes the values of its own syntax, and gets named tuples, or an error for
its client. Must not know a protocol, a topic, or the broker.

Reading order: `publish` and `batch` (publishes), `consume` (receives and streams), `start` (where a group begins),
`read` (pages of the log), `durations` (and times), `amounts` (limits, rates), `redis_channels` (names that are no
topics).
"""
