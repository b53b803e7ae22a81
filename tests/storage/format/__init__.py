"""Tests of the room `storage/format`."""
