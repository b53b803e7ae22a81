"""The states of a RESP connection: each ends in the next, and what they mean for bytes that come."""

import pytest

from miniqueue.server.resp.states import GONE, TRANSITIONS, Event, Life
from tests.fakes import settle_down
from tests.server.resp.clients import Client, command

STEPS = [(life, event, after) for life, events in TRANSITIONS.items() for event, after in events.items()]


def test_the_table_has_every_life_and_every_event():
    assert set(TRANSITIONS) == set(Life)
    assert {event for _, event, _ in STEPS} == set(Event)


@pytest.mark.parametrize(("life", "event", "after"), STEPS, ids=lambda part: part.name)
def test_a_life_only_changes_to_a_later_one(life, event, after):
    assert after > life


@pytest.mark.parametrize("life", [life for life in Life if life is not GONE], ids=lambda life: life.name)
def test_every_life_leads_to_the_end(life):
    while life is not GONE:
        life = max(TRANSITIONS[life].values())
    assert life is GONE


async def test_a_connection_that_drains_answers_what_holds_it_and_nothing_after(world, server, client):
    world.store.may_write.clear()
    client.connection.data_received(command(b"PUBLISH", b"t", b"a") + command(b"TOPICS") + command(b"PING"))
    server.drain()
    client.connection.data_received(command(b"PUBLISH", b"t", b"b"))
    assert not client.transport.is_closed
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == b"+OK\r\n*1\r\n$1\r\nt\r\n"
    assert client.transport.is_lost
    assert await world.drain(b"t") == [b"a"]


class LingeringTransport:
    """What a refused connection does to its transport."""

    def __init__(self, client: Client) -> None:
        self.is_half_closed = False
        client.transport.write_eof = self._close_half

    def _close_half(self) -> None:
        self.is_half_closed = True


@pytest.mark.parametrize(
    ("act", "is_closed"),
    [
        (lambda client: client.connection.data_received(b"x" * 1000), False),
        (lambda client: client.connection._replies.flush(), False),
        (lambda client: client.connection.close_soon(), True),
    ],
    ids=["bytes", "a commit that is done", "idle"],
)
async def test_a_refused_client_is_waited_for_unless_it_is_closed(act, is_closed, client):
    lingering = LingeringTransport(client)
    client.connection.data_received(b"*x\r\n")
    assert lingering.is_half_closed
    assert not client.transport.is_closed
    act(client)
    assert client.transport.is_closed == is_closed
    client.transport.lose()
