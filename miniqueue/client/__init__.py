"""A client of miniqueue over HTTP/2, for asyncio.

Publish, and consume what there is:

    async with await connect("localhost", 8080, cafile="certs/ca.pem") as client:
        await client.publish("orders", b"one")
        async with client.subscribe("orders") as subscription:
            async for delivery in subscription:
                print(delivery.payload)
                subscription.ack()
"""

from miniqueue.client.duplex import Http2Client, connect
from miniqueue.client.subscription import Delivery, Subscription
from miniqueue.errors import ClientError, ConnectError, DisconnectedError, ServerError

__all__ = [
    "ClientError",
    "ConnectError",
    "Delivery",
    "DisconnectedError",
    "Http2Client",
    "ServerError",
    "Subscription",
    "connect",
]
