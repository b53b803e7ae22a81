"""`miniqueue import`: turns JSON lines into the keys and values that the broker would have written.

Read `importer`, which writes to the store, then `topic`, `log` (a lane), and `group` (a group in a lane). Only
`importer` knows a store; the others fill batches.
"""
