"""Tests of the room `broker/cleanup`."""
