"""Tests of the room `server/shards/transfers`."""
