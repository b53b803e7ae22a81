"""The command line for people: in this process for what it does, as a process for terminals, pipes, and signals."""
