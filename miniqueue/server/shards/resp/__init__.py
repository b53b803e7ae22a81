"""RESP between processes: the door, which passes commands on, and the owner's end, a connection like any other.

Knows commands by their topics and replies, and nothing of HTTP. Read `door`, `owners`, then `gathering` and
`transaction`; for spread topics `spread`; for messages `receiver`, `taking`, `receiving`, `waiting`, and `returning`.
"""
