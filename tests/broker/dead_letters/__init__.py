"""Tests of the room `broker/dead_letters`."""
