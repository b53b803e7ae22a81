"""The bytes of a client whose commands wait: they are bounded, charged to the client, and end with it."""

import asyncio
import gc

import pytest

from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.server.resp.connection import (
    CHARGED_BYTES,
    FULL_READ_BYTES,
    MAX_KEPT_BYTES,
    READ_COMMANDS_BYTES,
)
from tests.fakes import settle_down
from tests.server.resp.clients import command

#: A command that is answered in a turn of its own, one that is answered after a commit, and one that is answered now.
COMMANDS_THAT_WAIT = [b"TOPICS", b"INFO", b"PING"]


@pytest.fixture
def counts(monkeypatch) -> dict[bytes, int]:
    """How often each of the commands was begun, and not refused."""
    counts = dict.fromkeys(COMMANDS_THAT_WAIT, 0)
    for name in COMMANDS_THAT_WAIT:
        entry = COMMANDS[name]

        def run(client, words, name=name, entry=entry):
            reply = entry.run(client, words)
            counts[name] += 1
            return reply

        monkeypatch.setitem(COMMANDS, name, entry._replace(run=run))
    return counts


def input_bytes(world):
    """Return what is charged for bytes that wait."""
    return world.broker.memory.amounts().get(Purpose.INPUT, 0)


@pytest.mark.parametrize("name", COMMANDS_THAT_WAIT)
async def test_a_client_that_never_stops_sending_is_not_read_while_its_commands_wait(name, world, client):
    data = (command(b"PUBLISH", b"t", b"x") + command(name) * 9) * 3000
    reader = client.connection._incoming.reader
    most_bytes = 0
    for _ in range(300):
        if client.transport.is_reading():
            client.connection.data_received(data[:FULL_READ_BYTES])
            data = data[FULL_READ_BYTES:] + data[:FULL_READ_BYTES]
            client.transport.take()
        unread_bytes = reader.unread_bytes()
        most_bytes = max(most_bytes, unread_bytes)
        assert input_bytes(world) >= unread_bytes or unread_bytes < CHARGED_BYTES
        await asyncio.sleep(0)
    assert CHARGED_BYTES < most_bytes <= MAX_KEPT_BYTES + FULL_READ_BYTES


async def test_what_waits_is_charged_until_it_is_carried_out(world, client):
    client.connection.data_received(command(b"TOPICS") * 20 + command(b"ECHO", b"end"))
    assert input_bytes(world) == READ_COMMANDS_BYTES
    await settle_down()
    assert client.transport.take().endswith(b"$3\r\nend\r\n")
    assert input_bytes(world) == 0


async def test_the_rest_of_a_read_is_charged_though_commands_came_before_it(world, client):
    client.connection.data_received(command(b"PING") + command(b"PUBLISH", b"t", bytes(200_000))[:150_000])
    await settle_down()
    assert client.transport.take() == b"+PONG\r\n"
    assert 150_000 <= input_bytes(world) + 100 <= 151_000


async def test_a_command_that_can_wait_long_is_answered_if_much_has_come_after_it(world, client):
    client.connection.data_received(command(b"RECEIVE", b"t", b"WAIT", b"60000") + command(b"ECHO", bytes(1000)) * 100)
    await settle_down()
    assert client.transport.take().endswith(command(b"ECHO", bytes(1000))[-1008:])
    assert client.transport.is_reading()
    assert input_bytes(world) == 0


async def test_a_client_that_has_gone_is_shown_nothing_but_what_it_asked_for_is_done(world, client, counts):
    sent = command(b"TOPICS") + command(b"INFO") * 100 + command(b"PUBLISH", b"t", b"x") + command(b"TOPICS") * 100
    client.connection.data_received(sent)
    client.transport.lose()
    await settle_down()
    assert (counts[b"INFO"], counts[b"TOPICS"]) == (0, 1)
    assert world.broker.stats()[b"t"].published == 1
    assert input_bytes(world) == 0


@pytest.mark.parametrize("line", [b"INFO", b"GROUP CREATE t g", b"GROUP DELETE t g", b"REDRIVE t", b"PURGE t"])
async def test_a_command_that_a_stop_ends_before_it_began_is_not_reported(client, line):
    """Fail for a coroutine that was never awaited: every warning fails a test."""
    client.connection.data_received(command(*line.split()))
    (task,) = client.connection.tasks
    task.cancel()
    await settle_down()
    assert task.cancelled()
    gc.collect()
