"""Which process owns which slots, as clients of Redis Cluster see it.

Knows nothing of topics, users, or connections. `nodes` is what there is, `replies` shows it as Redis does.
"""
