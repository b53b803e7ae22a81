"""Tests of the room `broker/leases`."""
