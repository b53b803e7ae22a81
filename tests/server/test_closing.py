"""Connections that end: nothing of them is left, long before their keep-alive is over."""

import asyncio
import ssl

import pytest

from miniqueue.client import connect
from tests.serving import eventually, serving


async def connected(served):
    context = ssl.create_default_context(cafile=served.cafile)
    return (await asyncio.open_connection("localhost", served.port, ssl=context))[1]


async def idle_and_close(served):
    (await connected(served)).close()


async def idle_and_abort(served):
    writer = await connected(served)
    writer.transport.abort()
    writer.close()


async def idle_over_http2(served):
    client = await connect("localhost", served.port, cafile=served.cafile)
    await client.publish("t", b"x")
    client.close()


async def leave_a_stream(served):
    client = await connect("localhost", served.port, cafile=served.cafile)
    async with client.subscribe("t"):
        client.close()


def connections():
    """Return the tasks of the server's connections."""
    return [task for task in asyncio.all_tasks() if "_server_callback" in repr(task.get_coro())]


@pytest.mark.parametrize("act", [idle_and_close, idle_and_abort, idle_over_http2, leave_a_stream])
def test_a_client_that_leaves_takes_its_tasks_along(certificates, act):
    async def scenario():
        async with serving(certificates) as served:
            for _ in range(3):
                await act(served)
            await served.request("GET", "/none")  # on a connection that stays, and is accepted after the others
            await eventually(lambda: len(connections()) == 1)

    asyncio.run(scenario())
