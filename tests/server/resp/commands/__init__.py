"""Tests of the room `server/resp/commands`."""
