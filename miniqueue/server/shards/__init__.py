"""Several processes that serve one set of ports: each has a shard, and any client may talk to any of them.

    client ─▶ a door: the process that accepted it ─┬─ a topic of its own shard ─▶ its broker
                                                    └─ another ─▶ a link, over a Unix socket ─▶ the owner's back

Nothing of this room is imported by a broker without `-shards`. Read `parent` (the processes), `links` and
`back` (what lies between them), then the doors of both protocols, in `resp` and `http`.
"""
