"""The engine: the objects that all parts of the broker share, and the functions that work on them.

Read `engine` first; then `topics`, the registry of topics by name; `lanes`, which adds messages to topics; `schemas`,
which checks them; `load`, which loads messages into memory; and `waking`, which wakes wide topics in turns.
This room must not import any part that takes an engine: parts that are made later connect to its events.
"""
