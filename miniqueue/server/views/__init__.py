"""How topics' contents are shown: groups, messages and traces, the same over RESP and HTTP.

Imports the values of the broker and the encodings of `wire`, and neither protocol. The modules are independent.
"""
