"""The monitoring port: health, metrics, statistics, and backup.

Read `app` first (the routes), then `metrics` and `topic_metrics` (the metrics of the broker and of its topics),
`backup` (the stream of the whole store), and `followers` and `changes` (copies that are kept up to date).

Knows the broker and `asgi`; must not import `http`, `resp`, or a server (`hypercorn`, `granian`).
"""
