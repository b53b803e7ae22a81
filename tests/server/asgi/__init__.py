"""Tests of `miniqueue.server.asgi`."""
