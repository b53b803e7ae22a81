"""The data source as it writes: packed rows, ids against duplicates, and waiting for the broker."""
