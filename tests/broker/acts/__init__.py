"""Tests of the room `broker/inspect`."""
