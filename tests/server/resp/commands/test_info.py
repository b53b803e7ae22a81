"""INFO: the sections and fields that tools for Redis read."""

from tests.fakes import settle_down
from tests.server.resp.clients import Client, command


async def fields(client: Client, *sections: bytes) -> dict[str, str]:
    client.send(b"INFO", *sections)
    await settle_down()
    text = client.transport.take().decode().split("\r\n", 1)[1]
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


async def test_the_section_that_is_named_is_answered_alone(client):
    assert await client.say(b"INFO REPLICATION") == b"$48\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"
    assert (await fields(client, b"clients", b"Server")).keys() >= {"connected_clients", "redis_version"}
    assert await fields(client, b"nosuch") == {}


async def test_all_sections_are_answered_unless_one_is_named(client):
    for sections in [(), (b"all",), (b"EVERYTHING",), (b"default",)]:
        shown = await fields(client, *sections)
        assert shown["role"] == "master"
        assert int(shown["used_memory"]) > 1 << 20
        assert {"blocked_clients", "uptime_in_seconds", "loading", "topics", "messages", "db0"} <= shown.keys()


async def test_commands_and_connections_are_counted_each_once(server, client):
    publish = command(b"PUBLISH", b"t", b"x")
    client.connection.data_received(publish)
    client.connection.data_received(publish * 1000)
    await settle_down()
    client.connection.data_received(command(b"PING") * 16)
    await settle_down()
    client.transport.take()
    other = Client(server)
    assert await other.say(b"PING") == b"+PONG\r\n"
    other.connection.connection_lost(None)
    shown = await fields(client)
    assert (shown["total_commands_processed"], shown["total_connections_received"]) == ("1019", "2")
    assert shown["db0"] == "keys=1001,expires=0,avg_ttl=0"


async def test_a_client_that_waits_for_messages_counts_as_blocked(server, client):
    Client(server).send(b"RECEIVE", b"t", b"WAIT", b"60")
    assert (await fields(client))["blocked_clients"] == "1"
