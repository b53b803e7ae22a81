"""Tests of the room `broker/stored`."""
