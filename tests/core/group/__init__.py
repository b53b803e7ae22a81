"""Tests of the room `core/group`."""
