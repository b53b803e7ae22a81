"""What every part of the broker needs in order to run: time, tasks, epochs, and a limit on memory.

This room must not import any other room of the broker, nor a store. Read `clock` and `horizon` first, which define the
time; then `tasks`, which runs background work, and ends acts when the store fails. `share` cuts long work into slices,
and `parts` does the first of them at once. `cache_budget` limits the memory of caches.
"""
