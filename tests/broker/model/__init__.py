"""Tests of the room `broker/model`."""
