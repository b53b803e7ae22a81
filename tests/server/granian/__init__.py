"""Tests of the room `server/granian`."""
