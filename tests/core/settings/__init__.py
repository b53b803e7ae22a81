"""Tests of the room `core/settings`."""
