"""Tests of HTTP between shards."""
