"""Parts of ASGI applications that the queue's HTTP port and the monitoring port share.

Read `replies` first (replies, and the status of each error), then `request` and `routing` (body, query, and path of a
request), `endpoints` (requests that are answered with JSON), `authorization` (users and rights), `browser_pages`
(requests of foreign web pages), `refusals` (counts of rejected requests), and `late` (an application that is imported
when it is used).

Knows requests, replies, users, and errors; must not import the broker, the endpoints (`http`, `monitor`), or a server
(`hypercorn`, `granian`).
"""
