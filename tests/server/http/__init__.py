"""Tests of `miniqueue.server.http`."""
