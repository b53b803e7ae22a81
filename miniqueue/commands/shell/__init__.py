"""What all commands share: their flags, the broker that they use, their output, and their questions to a person.

Must not know any command, or what a command is for. Read in this order:

    flags        commands and groups of Click with the flags of miniqueue: one dash or two, suggestions, one-line errors
    values       types of values: durations, times, headers, names of topics
    contexts     the file with the brokers of a person
    local        the broker on this machine, as its settings say
    connecting   which broker a command uses; a client that names the role that is missing
    output       tables, JSON, and JSON lines
    columns      tables as text, in a pipe and on a terminal
    texts        times, ages, and payloads as people read them, and as JSON
    asking       confirmation and passwords
    progress     how far long work is
"""
