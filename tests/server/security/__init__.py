"""Tests of the room `server/security`."""
