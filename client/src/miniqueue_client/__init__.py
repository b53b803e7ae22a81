"""Python clients of miniqueue.

`Client` and `AsyncClient`, the clients for most programs, use RESP and redis-py: its connection pool, TLS and
retries. `Worker` and `AsyncWorker` call a function for each message.

    from miniqueue_client import Client

    with Client("redis://localhost:6379") as client:
        client.publish("orders", b"one")
        for message in client.receive("orders", count=10, wait_seconds=20):
            client.ack("orders", message)

`Http2Client`, for asyncio, uses HTTP/2, and keeps a stream of messages open. It requires the extra
`miniqueue-client[http2]`.

    from miniqueue_client import connect

    async with await connect("localhost", 8080, cafile="certs/ca.pem") as client:
        await client.publish("orders", b"one")
        async with client.subscribe("orders") as subscription:
            async for delivery in subscription:
                print(delivery.payload)
                subscription.ack()

This package is a distribution of its own, for programs that have no broker. It must not import `miniqueue`, the
broker, which imports `errors` here. Names are imported when they are first used, so that a program loads only what it
needs. Read in this order:

    errors       what can go wrong
    calls/       commands as values: their words, and what their replies mean; all clients use them
    address      which broker to use, and how long to wait for it; what a pickled client contains
    routes                  which node of the broker gets a call
    link, async_link        redis-py's connections, retries, and errors that say what is known
    client, async_client    one method for each call
    work, worker, async_worker    workers: receive, call a function, settle, extend leases
    http2/       the client over HTTP/2
"""

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from miniqueue_client.async_client import AsyncClient
    from miniqueue_client.async_worker import AsyncWorker
    from miniqueue_client.calls import messages as message_calls  # noqa: F401 - programs import it; `__all__` has no modules
    from miniqueue_client.calls.chosen import Selection
    from miniqueue_client.calls.errors import RefusedError
    from miniqueue_client.calls.messages import Outgoing
    from miniqueue_client.calls.outcomes import Delay, Reject
    from miniqueue_client.calls.trace_steps import Step
    from miniqueue_client.calls.tracing import handling
    from miniqueue_client.calls.values import (
        Bounds,
        Counts,
        Event,
        Found,
        Group,
        HeldMessage,
        LeaseHolder,
        Message,
        Origin,
        Page,
        PublishedId,
        PublishedIds,
        Redriven,
        Schedule,
        Seek,
        Task,
    )
    from miniqueue_client.client import Client
    from miniqueue_client.errors import ClientError, ConnectError, DisconnectedError, ServerError
    from miniqueue_client.http2.client import Http2Client, connect
    from miniqueue_client.http2.subscription import Delivery, Subscription
    from miniqueue_client.worker import Worker

__all__ = [
    "AsyncClient",
    "AsyncWorker",
    "Bounds",
    "Client",
    "ClientError",
    "ConnectError",
    "Counts",
    "Delay",
    "Delivery",
    "DisconnectedError",
    "Event",
    "Found",
    "Group",
    "HeldMessage",
    "Http2Client",
    "LeaseHolder",
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
    "Selection",
    "ServerError",
    "Step",
    "Subscription",
    "Task",
    "Worker",
    "connect",
    "handling",
]

__version__ = "0.1.0"

_VALUES: Final = (
    *("Bounds", "Counts", "Event", "Found", "Group", "HeldMessage", "LeaseHolder", "Message", "Origin"),
    *("Page", "PublishedId", "PublishedIds", "Redriven", "Schedule", "Seek", "Task"),
)
#: The modules that define the names.
_MODULES: Final = MappingProxyType(
    {
        **dict.fromkeys(("ClientError", "ConnectError", "DisconnectedError", "ServerError"), "errors"),
        **dict.fromkeys(_VALUES, "calls.values"),
        "Outgoing": "calls.messages",
        "RefusedError": "calls.errors",
        "Selection": "calls.chosen",
        "Step": "calls.trace_steps",
        "AsyncClient": "async_client",
        "AsyncWorker": "async_worker",
        "Client": "client",
        "Delay": "calls.outcomes",
        "Reject": "calls.outcomes",
        "Worker": "worker",
        "Delivery": "http2.subscription",
        "Http2Client": "http2.client",
        "Subscription": "http2.subscription",
        "connect": "http2.client",
        "handling": "calls.tracing",
    }
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name is
    """Import a name when it is first used; raises ImportError that says what to install if h2 is missing."""
    try:
        if name == "message_calls":
            return importlib.import_module(f"{__name__}.calls.messages")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "h2":
            raise
        raise ImportError(f"{name} needs h2: pip install 'miniqueue-client[http2]'") from exc
