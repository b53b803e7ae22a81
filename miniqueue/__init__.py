"""miniqueue: a durable message queue in one process, on HTTP/2 and RESP."""

__version__ = "0.1.0"
