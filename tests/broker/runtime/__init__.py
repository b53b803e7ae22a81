"""Tests of the room `broker/runtime`."""
