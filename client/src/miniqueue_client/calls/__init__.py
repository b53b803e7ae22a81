"""Calls: the commands of a client as values, each with the meaning of its reply.

Both RESP clients use these functions, so they are written, typed and documented once. The room must not import
redis-py or a connection. Read in this order: `call` (the type), `errors` (refusals, and which errors permit a retry),
`values` and `trace_steps` (results), `answers` (from replies to values), `json_text`, `messages`, `topics`, `groups`,
`logs` and `schedules` (the commands), `outcomes` and `tracing` (what a handler decides, and how it is traced),
`methods` (from a function to a method of a client), `transaction` (calls in one commit).
"""
