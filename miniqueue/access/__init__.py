"""Users, their secrets, and the one table of rights.

Does no I/O and reads no clock; must not know a protocol or the broker. The server authenticates clients with it.

Reading order: `rights` (the right that each command and route requires), `users` (who has it), `users_text` (the users
file), `hashing` (stored secrets), `throttle` (limits on failed attempts).
"""
