"""miniqueue: a durable message queue in one process, on HTTP/2 and RESP.

This package holds only the version, so that every room can import it. The command is in `cli` and `__main__`; each room
describes itself in its `__init__`, and ARCHITECTURE.md is the map.
"""

__version__ = "0.1.0"
