"""Conversion between topics in memory and the keys and values of the store.

This room must not know the journal: it says what to write, and `commit` writes it. Read `opening` with `opening_state`
first, which read a store at startup; then `encode_commit`, which encodes changes; `load`, which loads messages into
memory; and `browse`, `browse_delayed`, and `log_index`, which read messages without loading them.
"""
