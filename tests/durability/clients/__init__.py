"""Clients of the crash loops: they act, keep a history, and check it."""
