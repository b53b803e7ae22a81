"""Spread topics over RESP: which part of a topic carries a command out, or how the replies of all parts become one.

Knows commands and replies, and neither which shard has a part nor how it is asked; only `stream` has links, one to each
part, and `keyed` learns the shard of each part.

Read `parting` (one part), then `asking` (all of them), then the modules that it names; `batches`, `keyed`, and `stream`
have messages of several parts.
"""
