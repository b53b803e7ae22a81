"""Tests of the room `broker/delays`."""
