"""The HTTP/2 client: asyncio, h2, no redis-py.

Read in this order: `stream` (one request and its response), `connection` (h2 between a transport and streams),
`subscription` (deliveries and how to settle them), `requests` (calls of the other clients as requests), `client` (the
methods).
"""
