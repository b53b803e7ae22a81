"""The path to the store: group commits, faults of the store, admission, backpressure, and free disk space.

Read `journal` first, which writes the changes of topics and reopens a store that has failed, with `admission`; then
`events`, `backpressure`, and `disk_watch`.
This room knows topics as data only. It must not import the rooms that work on topics, `engine` included.
"""
