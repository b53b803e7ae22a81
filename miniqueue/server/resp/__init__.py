"""The RESP listener: connections of Redis clients, from bytes to calls of the broker and back.

Does not import the HTTP listener, storage, or `run`. Read first `commands/context.py`, what a command knows; then

    server        makes and ends connections          guard      users and their rights
    shared        what connections share              idle       closes idle connections
    states        the states of one connection        turns      shares the event loop between connections
    connection    one connection                      refusals   counts why connections were closed
    incoming      its commands that wait              closing    what remains to do when a connection ends
    replies       its replies, in order           keyed      messages with keys that come together
"""
