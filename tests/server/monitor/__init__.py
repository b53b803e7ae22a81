"""Tests of the room `server/monitor`."""
