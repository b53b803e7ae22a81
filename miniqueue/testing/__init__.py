"""A broker for the tests of programs that use miniqueue: in memory, on free ports, in a process of its own.

    def test_an_order_is_published(miniqueue_url):          # a fixture of the plugin of pytest
        with Client(miniqueue_url) as client:
            place_order(client, 17)
            assert client.receive("orders")[0].json() == {"id": 17}

A `conftest.py` names the plugin: `pytest_plugins = ["miniqueue.testing.plugin"]`. pytest does not find it by itself,
since it would then rewrite the assertions of all of miniqueue, in every run. Nothing here imports the server, or the
client before it is used. Read `broker`, then `plugin`.
"""

from miniqueue.testing.broker import MemoryBroker, StartError

__all__ = ["MemoryBroker", "StartError"]
