"""Tests of the room `broker/topics`."""
