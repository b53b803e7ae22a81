"""Tests of the room `storage/leveldb/files`."""
