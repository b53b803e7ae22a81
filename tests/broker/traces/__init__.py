"""Tests of the room `broker/traces`."""
