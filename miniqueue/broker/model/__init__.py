"""Topics and groups in memory, and what is counted and recorded of them: data, and rules that need no store.

This room must not know the store, commits, or any other room of the broker, except `runtime`. Read `topic` with `parts`
first, then `views`, `held` and `limits`, then `new_partitions`, `rest`, `flow`, `rates` and `recording`.
"""
