"""Tests of the room `core/keyed`."""
