"""Carries messages from the outbox of this shard to the inboxes of others, over links between their processes.

Read `carrier`, then `sending` and `arriving`, the two ends of a link. Knows neither topics nor messages: the outbox and
the inbox of the broker decide what is sent, and what has arrived. No client can send what these links carry.
"""
