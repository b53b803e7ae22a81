"""Codecs for the two protocols, RESP and JSON lines: bytes in, lists out; no socket, no clock, no loop."""
