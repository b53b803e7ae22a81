"""What clients can do to a broker and to the model of it, one act a function."""
