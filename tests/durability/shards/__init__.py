"""Faults of single shards: `side` has the clients of a shard, `probes` measure the others, `faults` is the loop."""
