"""RESP between processes: the door, which passes commands on, and the owner's end, a connection like any other.

Knows commands by their topics and replies, and nothing of HTTP. Read `door`, then `gathering` and `transaction`;
of spread topics, `parting`, then `taking`.
"""
