"""Tests of the room `broker/commit`."""
