"""Tests of the room `server/hypercorn`."""
