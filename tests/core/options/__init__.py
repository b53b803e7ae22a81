"""Tests of the room `core/options`."""
