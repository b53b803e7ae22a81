"""Who may do what: users, how their secrets are kept, and the one table of rights. Does no I/O and tells no time."""
