"""The live page of several shards."""
