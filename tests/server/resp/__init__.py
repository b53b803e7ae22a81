"""Tests of the room `server/resp`."""
