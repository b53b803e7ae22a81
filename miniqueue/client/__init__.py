"""Clients of miniqueue.

The one for most programs speaks RESP, with the connections of redis-py: its pool, TLS, retries. It blocks, or is
awaited; a worker calls a function for each message. It takes the extra `miniqueue[client]`.

    from miniqueue.client import Client

    with Client("redis://localhost:6379") as client:
        client.publish("orders", b"one")
        for message in client.receive("orders", count=10, wait_seconds=20):
            client.ack("orders", message)

The other one, for asyncio, speaks HTTP/2 and holds a stream of messages open, with what miniqueue itself needs.

    from miniqueue.client import connect

    async with await connect("localhost", 8080, cafile="certs/ca.pem") as client:
        await client.publish("orders", b"one")
        async with client.subscribe("orders") as subscription:
            async for delivery in subscription:
                print(delivery.payload)
                subscription.ack()
"""

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from miniqueue.client.duplex import Http2Client, connect
from miniqueue.client.group import Group, Seek
from miniqueue.client.log import Bounds, Page
from miniqueue.client.message import Message, Origin
from miniqueue.client.message_calls import Outgoing
from miniqueue.client.published import PublishedId, PublishedIds
from miniqueue.client.redriven import Redriven
from miniqueue.client.refusals import RefusedError
from miniqueue.client.schedule import Schedule
from miniqueue.client.step import Step
from miniqueue.client.subscription import Delivery, Subscription
from miniqueue.client.work import Delay, Reject
from miniqueue.errors import ClientError, ConnectError, DisconnectedError, ServerError

if TYPE_CHECKING:
    from miniqueue.client.async_worker import AsyncWorker
    from miniqueue.client.asynchronous import AsyncClient
    from miniqueue.client.blocking import Client
    from miniqueue.client.worker import Worker

__all__ = [
    "AsyncClient",
    "AsyncWorker",
    "Bounds",
    "Client",
    "ClientError",
    "ConnectError",
    "Delay",
    "Delivery",
    "DisconnectedError",
    "Group",
    "Http2Client",
    "Message",
    "Origin",
    "Outgoing",
    "Page",
    "PublishedId",
    "PublishedIds",
    "Redriven",
    "RefusedError",
    "Reject",
    "Schedule",
    "Seek",
    "ServerError",
    "Step",
    "Subscription",
    "Worker",
    "connect",
]

#: Where the names are that need redis-py; who does not use them does without it, and does not wait for its import.
_WITH_REDIS: Final = MappingProxyType(
    {
        "AsyncClient": "miniqueue.client.asynchronous",
        "AsyncWorker": "miniqueue.client.async_worker",
        "Client": "miniqueue.client.blocking",
        "Worker": "miniqueue.client.worker",
    }
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name is
    """Import what needs redis-py when it is first asked for; raises ImportError with what to install."""
    if name not in _WITH_REDIS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_WITH_REDIS[name]), name)
    except ModuleNotFoundError as exc:
        if exc.name != "redis":
            raise
        raise ImportError(f"{name} needs redis-py: pip install 'miniqueue[client]'") from exc
