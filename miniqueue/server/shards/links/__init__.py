"""What lies between processes: the first line on a connection, what is sent in batches, and whether the others answer.

Knows no commands and no requests of clients; `resp` and `http` beside it bring them. `spreading` is what shards order
of each other about spread topics, `part_choice` is where messages without keys go, `take_choice` which shard a RECEIVE
asks first.
"""
