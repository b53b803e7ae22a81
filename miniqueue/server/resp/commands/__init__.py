"""The RESP commands: functions of a client and a command that return a reply.

Imports nothing of the room around it: a command knows its connection as the protocol `Client`. Read `context`, then
`table`, which lists all commands; then any module of a subject. `session` is what a client says about itself.
`subscribe`, `channels`, `events`, and `transaction` replace the table while a connection is in their mode.
"""
