"""The endpoints of the HTTP port: the protocol's requests and streams, on top of the broker.

Read `app` first (the routes), then `publish`, `subscribe`, and `receive` (the ways in and out), with `open_streams`
(requests that last until their client or the server ends them). Each other module has the routes of one subject:
`settle`, `transactions`, `request_reply`, `topics`, `groups`, `inspect`, `messages`, `tasks`, `leases`, `logs`,
`schedules`, `events`, and `usage`.

Knows the broker and `asgi`; must not import `resp`, `monitor`, or a server (`hypercorn`, `granian`).
"""
