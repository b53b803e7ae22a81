"""Delivery by key: ordered keys, turns among keys, and limits per key.

A second way to take messages from a cursor, for topics whose settings require it. Must not know the store, the event
loop, or the settings of topics: the broker passes `KeyRules` to `reader.arrange`.

Reading order: `key_queue` (the messages of one key), `key_turns` (the next key), `log_index` and `returns_index` (what
is loaded, by key), then `reader`, which connects them with a cursor. `pace` is the rate limiter of a whole topic.
"""
