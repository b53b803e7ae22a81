"""Tests of the room `broker/groups`."""
