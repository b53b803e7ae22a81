"""Messages of a topic from files, for `miniqueue tail --backup`: no broker is needed.

    directory   a backup, or the store of a broker that does not run      the log of the topic, settled or not
    file        the JSON lines of `miniqueue export`, also compressed     the messages that were not consumed

Yields the values of the client, so that messages look the same wherever they come from. Must not know the command line.
Reading order: `values` (from stored attributes to a message), `backup`, `lines`, `reading` (which of both a path is).
"""
