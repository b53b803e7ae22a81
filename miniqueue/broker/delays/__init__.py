"""Messages that are published later: delayed messages, once each, and schedules, at every tick of a rule.

This room must not import the rooms that deliver messages (`consume`, `leases`). Read `delays` first, which appends
delayed messages to the log when they are due. Then read `recurrence`, which computes the ticks of a schedule from its
rule, and `schedules`, which publishes a message for each tick.
"""
