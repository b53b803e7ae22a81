"""Tests of the room `server/shards/resp`."""
