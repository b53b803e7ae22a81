"""The ordered key-value port, its two adapters, and every encoding that is persisted.

Read `port` first, then `memory`, the smallest adapter. `leveldb` is the durable adapter; `format` contains the keys
and values that the broker stores. This package must not import the broker or a protocol.
"""
