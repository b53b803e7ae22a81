"""A broker of several processes, as its clients and its operator see it."""
