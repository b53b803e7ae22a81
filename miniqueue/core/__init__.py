"""The rules of the queue, as pure data structures: no I/O, no clock, no asyncio, no logging; times are arguments.

Must not import any other part of the product except `errors`. Reading order: `message`, `log` (with `cursor` for the
positions of groups in it), `keyed`, `group`, then `options` and `settings` (what clients and operators can ask for),
and `statistics`.
"""
