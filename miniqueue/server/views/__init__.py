"""What both protocols show alike: groups, messages, traces, events, clients, which tasks a user sees; spread topics.

Imports the values of the broker and the encodings of `wire`, and neither protocol. The modules are independent.
"""
