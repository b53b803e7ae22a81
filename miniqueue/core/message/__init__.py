"""Messages: payloads, attributes, ids, names, priorities, and the partition of a key.

Values and pure functions; knows no other part of the product except its errors.

Reading order: `message` (chunks and records), `attributes` (everything except the payload), `lanes` and `partitioning`
(the log that a message is appended to), `parts` (of spread topics), `ids` and `names` (as clients see them), `numerals`
(fast encodings).
"""
