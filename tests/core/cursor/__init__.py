"""Tests of the room `core/cursor`."""
