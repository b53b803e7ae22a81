"""Tests of the room `core/log`."""
