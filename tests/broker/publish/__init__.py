"""Tests of the room `broker/publish`."""
