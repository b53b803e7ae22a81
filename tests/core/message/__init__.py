"""Tests of the room `core/message`."""
