"""Tests of the room `storage/leveldb`."""
