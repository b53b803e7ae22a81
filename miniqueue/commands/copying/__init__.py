"""`miniqueue copy`: copies topics from one broker to another, each message exactly once, whatever is killed when.

    source                                 target
    ──────                                 ──────
    READ orders 0 17 ─▶ messages 17 to 99 ─▶ MULTI
                                               PUBEACH orders …        the messages
                                               PUB miniqueue.copies …  the marker: partition 0 continues at 100
    GROUP SEEK orders copy 0-100 ◀───────── EXEC

The messages and the position after them are one commit of the target, so a copy that begins again reads its marker and
continues where the target is. The group `copy` of the source only keeps messages that are not copied from being
deleted. Nothing is leased at the source: deliveries, retries, and dead letters are not affected.

Must not know the terminal or the command line. Reading order: `markers` (positions, as the target stores them),
`batches` (from a page of a log to what one transaction publishes), `topic_copy` (one topic), `copying` (all topics,
and errors that pass), `once` (a copy that ends), `sides` (the clients).
"""
