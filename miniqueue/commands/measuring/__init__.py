"""`miniqueue bench`: how fast a broker publishes, delivers, and acknowledges, as a client sees it.

    publish      connections × pipeline: PUB … PUB ─▶ ids           a round trip for each pipeline
    consume      connections × pipeline: RECEIVE COUNT n, ACK       a round trip for each batch
    deliver      one message at a time: PUB ─▶ a waiting RECEIVE    from before the publish to the delivery

Everything happens in a topic of its own, which is deleted at the end. Must not know the terminal. Reading order:
`samples` (times, and what is computed from them), `steps` (what is measured).
"""
