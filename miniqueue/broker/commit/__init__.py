"""The path to the store: group commits, faults of the store, admission, backpressure, and free disk space.

Read `group_commit` first, then `admission` and `journal`, which write the changes of topics and reopen a store that
has failed; then `events`, `backpressure`, and `disk_watch`.
This room knows topics as data only. It must not import the rooms that work on topics, `engine` included.
"""
