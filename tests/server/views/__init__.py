"""Tests of the room `server/views`."""
