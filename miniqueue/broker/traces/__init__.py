"""Traces: what happened to each message of a traced topic, recorded, stored for a limited time, and read.

This room must not know a protocol. Read `tracer` first, which stores what `model.recording` records and deletes it when
it is too old; then `steps`, which converts events to the steps that clients see; then `reader`, which reads the trace
of a message.
"""
