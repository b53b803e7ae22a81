"""RESP between processes: the door, which passes commands on, and the owner's end, a connection like any other.

Knows commands by their topics and replies, and nothing of HTTP. Read `door`, then `gathering` and `transaction`; for
spread topics `parting`, `asking`, and `stream`; for messages `taking`, `receiving`, `waiting`, and `returning`.
"""
