"""Tests of `miniqueue.server.config`."""
