"""Tests of the room `broker/consume`."""
