"""`miniqueue export`: turns the pairs of a store into JSON lines.

Read `exporter`, which passes over the pairs once, then `groups`, which knows the messages that each group still
needs. This package must not know files or stores; `lines` contains the form of the lines.
"""
