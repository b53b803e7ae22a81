"""Leases that belong to no connection: receiving messages once, settling them by receipt, and replying to requests.

This room must not import the protocol servers. Read `receive` first, which waits for the messages of one request; then
`leases`, which leases them, settles them by receipt and returns them when the lease expires; and `listing`, which
describes leased messages. `request_reply` publishes requests and passes each reply to the waiting requester.
"""
