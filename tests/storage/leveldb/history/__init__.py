"""Tests of copies that follow a store: `storage/leveldb/history` and `replica`."""
