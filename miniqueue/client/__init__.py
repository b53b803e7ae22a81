"""Python clients of miniqueue.

`Client` and `AsyncClient`, the clients for most programs, use RESP and redis-py: its connection pool, TLS and
retries. `Worker` and `AsyncWorker` call a function for each message. They require the extra `miniqueue[client]`.

    from miniqueue.client import Client

    with Client("redis://localhost:6379") as client:
        client.publish("orders", b"one")
        for message in client.receive("orders", count=10, wait_seconds=20):
            client.ack("orders", message)

`Http2Client`, for asyncio, uses HTTP/2, keeps a stream of messages open, and requires no extra.

    from miniqueue.client import connect

    async with await connect("localhost", 8080, cafile="certs/ca.pem") as client:
        await client.publish("orders", b"one")
        async with client.subscribe("orders") as subscription:
            async for delivery in subscription:
                print(delivery.payload)
                subscription.ack()

This package may import `errors` and the value types of `core`, not the broker, the storage or the server. Read in
this order:

    calls/       commands as values: their words, and what their replies mean; both RESP clients use them
    address      which broker to use, and how long to wait for it; what a pickled client contains
    link, async_link        redis-py's connections, retries, and errors that say what is known
    client, async_client    one method for each call
    work, worker, async_worker    workers: receive, call a function, settle, extend leases
    http2/       the client over HTTP/2
"""

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from miniqueue.client.calls import messages as message_calls  # noqa: F401 - docs/client.md imports it by this name
from miniqueue.client.calls.errors import RefusedError
from miniqueue.client.calls.messages import Outgoing
from miniqueue.client.calls.trace_steps import Step
from miniqueue.client.calls.values import (
    Bounds,
    Group,
    HeldMessage,
    Message,
    Origin,
    Page,
    PublishedId,
    PublishedIds,
    Redriven,
    Schedule,
    Seek,
)
from miniqueue.client.http2.client import Http2Client, connect
from miniqueue.client.http2.subscription import Delivery, Subscription
from miniqueue.client.work import Delay, Reject
from miniqueue.errors import ClientError, ConnectError, DisconnectedError, ServerError

if TYPE_CHECKING:
    from miniqueue.client.async_client import AsyncClient
    from miniqueue.client.async_worker import AsyncWorker
    from miniqueue.client.client import Client
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
    "HeldMessage",
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

#: The modules of the names that require redis-py. A program that does not use them need not install or import it.
_WITH_REDIS: Final = MappingProxyType(
    {
        "AsyncClient": "miniqueue.client.async_client",
        "AsyncWorker": "miniqueue.client.async_worker",
        "Client": "miniqueue.client.client",
        "Worker": "miniqueue.client.worker",
    }
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name is
    """Import a name that requires redis-py when it is first used; raises ImportError that says what to install."""
    if name not in _WITH_REDIS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_WITH_REDIS[name]), name)
    except ModuleNotFoundError as exc:
        if exc.name != "redis":
            raise
        raise ImportError(f"{name} needs redis-py: pip install 'miniqueue[client]'") from exc
