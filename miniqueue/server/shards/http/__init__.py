"""HTTP between the processes of a broker with shards: requests reach the owners of their topics, through any process.

    request ─▶ door ─┬─ own topic, or none ─▶ the application of this process
                     ├─ a topic of another shard ─▶ a tunnel ─▶ the application of its owner
                     └─ a route that concerns all shards ─▶ a tunnel to each, this one too ─▶ one reply of all

Read `frames` and `scopes` (what is on a tunnel), then `tunnel` (the door's end) and `serving` (the owner's end), then
`door` with the routes that concern all shards: `merging`, `bodies`, `receiving`, `events`; `monitor` and `metrics` are
the monitoring port.

Knows ASGI, users, and errors; must not import the applications (`http`, `monitor`), a server, or the rest of `shards`.
"""
