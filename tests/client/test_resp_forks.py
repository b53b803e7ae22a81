"""Clients across forks: a child never speaks on its parent's sockets, and neither harms the other."""

import asyncio
import multiprocessing
import os
import traceback

import pytest

from miniqueue_client import AsyncClient

pytestmark = pytest.mark.acceptance


def in_child(work):
    """Run `work` in a fork of this process, without what pytest would do at its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def connection_ids(client):
    """Return the numbers of a client's idle connections, as the broker counts them."""
    with client._link._pool._lock:
        connections = list(client._link._pool._available_connections)
    ids = set()
    for connection in connections:
        connection.send_command("CLIENT", "ID")
        ids.add(connection.read_response())
    return ids


def test_a_forked_child_has_connections_of_its_own(client, topic):
    client.publish_many(topic, ["parent"])
    before = connection_ids(client)

    def work():
        client.publish_many(topic, ["child"])
        assert not connection_ids(client) & before
        client.close()

    in_child(work)
    assert connection_ids(client) == before
    assert client.length(topic) == 2


def test_a_child_that_ends_at_once_leaves_the_connections_of_its_parent_open(client):
    client.ping()
    before = connection_ids(client)
    in_child(lambda: None)
    in_child(client.close)
    client.ping()
    assert connection_ids(client) == before


def _publish(client, topic, count):
    client.publish_many(topic, [f"{os.getpid()}-{number}" for number in range(count)])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_a_client(client, topic, method):
    client.ping()
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=_publish, args=(client, topic, 20)) for _ in range(3)]
    for process in processes:
        process.start()
    client.publish_many(topic, ["parent"])
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert client.length(topic) == 61


def test_an_async_client_begins_anew_in_a_forked_child(resp_broker, topic):
    """Its parent's event loop is copied too, with its epoll, which both processes share."""

    async def child(client):
        assert await client.publish_many(topic, ["child"])
        await client.close()

    def run_child(client):
        asyncio.set_event_loop(None)
        asyncio.events._set_running_loop(None)
        asyncio.run(child(client))

    async def parent():
        async with AsyncClient(resp_broker.url) as client:
            await client.publish_many(topic, ["parent"])
            in_child(lambda: run_child(client))
            async with asyncio.timeout(60):
                assert await client.length(topic) == 2
                assert await client.receive(topic, wait_seconds=0.1)

    asyncio.run(parent())
