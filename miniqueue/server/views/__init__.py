"""What both protocols show alike: groups, messages, traces, events, clients, and which tasks a user sees.

Imports the values of the broker and the encodings of `wire`, and neither protocol. The modules are independent.
"""
