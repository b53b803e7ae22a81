"""The position of one group in one partition: what it has leased, what was returned, what it reads next.

Pure rules over data in memory: no store, no clock, no event loop, no topic. The broker loads messages into a
cursor, asks it for leases, and writes its changes with the next commit.

Reading order: `lease` (ranges, chunks in progress, gaps in the log, leases), `window` (the loaded part of a
range), `due_count` (a count), `state` (what is stored, and the protocols of the cursor's helpers), `cursor`,
`returning` (nack, back, dack), then the sets of leases: `receipts`, `holding` (per connection), `lease_book` (leases
with deadlines). `recording` defines the trace events, `many` sets fields of thousands of cursors.
"""
