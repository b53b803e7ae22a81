"""Granian, the optional HTTP server (-http-server granian): TLS and HTTP/2 in Rust, on a thread of its own.

Read `server` first (start and stop), then `requests` (deadlines of bodies, requests in progress) and `handover` (how
requests get from Granian's thread to the event loop).

Uses `hypercorn` for the limits and constants of both servers; must not import the applications (`http`, `monitor`).
Only `run` imports this room, and only if the setting asks for it: Granian is an extra that may not be installed.
"""
