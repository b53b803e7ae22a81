"""Tests of the room `server/process`."""
