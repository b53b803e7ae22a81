"""Calls: the commands of a client as values, each with the meaning of its reply.

Both RESP clients use these functions, so they are written, typed and documented once. The room must not import
redis-py or a connection. Read in this order: `call` (the type), `errors` (refusals, and which errors permit a retry),
`values` and `trace_steps` (results), `answers` (from replies to values), `messages`, `topics`, `groups`, `logs` and
`schedules` (the commands), `methods` (from a function to a method of a client).
"""
