"""A transaction of publishes that arrives in one read is not queued; clients see what they see if it is."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from miniqueue.broker.model.limits import BrokerLimits, LimitPolicy
from miniqueue.server.resp.commands import transaction
from miniqueue.server.resp.server import RespServer
from tests.broker.support import started_world
from tests.fakes import settle_down
from tests.server.access import sign_in_for, token_of
from tests.server.resp.clients import LONG_TURN_SECONDS, Client, command
from tests.serving import eventually

LIMITS = BrokerLimits(max_topic_messages=5, policy=LimitPolicy.REFUSE, max_transaction_bytes=20_000)


@dataclass(frozen=True)
class Case:
    """What comes before the transaction, and its messages."""

    payloads: tuple[bytes, ...] = (b"1", b"2", b"3")
    before: tuple[bytes, ...] = ()
    topic: bytes = b"t"
    user: str = ""
    max_memory_bytes: int = 0
    has_users: bool = False
    spelled: Callable[[bytes], bytes] = bytes.upper


CASES = {
    "messages of one size": Case(),
    "messages of several sizes": Case((b"", b"22", b"333")),
    "one message": Case((b"1",)),
    "lower case": Case(spelled=bytes.lower),
    "a payload like the end": Case((b"1", b"\r\n" + command(b"EXEC"))),
    "a topic that is full": Case((b"1",) * 6),
    "a topic that is full later": Case((b"1",) * 4, (b"PUBLISH t 1", b"PUBLISH t 1")),
    "a topic that is paused": Case(before=(b"TOPIC CREATE t", b"TOPIC PAUSE t in")),
    "a topic that cannot exist": Case(topic=b"no/topic"),
    "a name of dots": Case(topic=b".."),
    "a message that is too large": Case((b"1", b"x" * 1001)),
    "too many commands": Case((b"1",) * 21),
    "no memory": Case(max_memory_bytes=1),
    "a message that does not fit": Case((b"{}", b"5"), (b'TOPIC CREATE t schema {"type":"object"}',)),
    "in a transaction": Case(before=(b"MULTI",)),
    "in a transaction that was refused": Case(before=(b"MULTI", b"WATCH t")),
    "in a stream": Case(before=(b"PUBLISH t 0", b"SUBSCRIBE t")),
    "with channels of Redis": Case(before=(b"SUBSCRIBE __keyspace@0__:t",)),
    "with channels of Redis, RESP3": Case(before=(b"HELLO 3", b"SUBSCRIBE __keyspace@0__:t")),
    "with events": Case(before=(b"EVENTS",)),
    "not authenticated": Case(has_users=True),
    "with the right to publish": Case(has_users=True, user="publisher-of-all"),
    "without the right to publish": Case(has_users=True, user="subscriber-of-all"),
}


async def exchanged(case: Case, send: Callable[[Client, list[bytes]], None]) -> tuple[bytes, list[bytes], int]:
    """Return the replies to a transaction, what the topic then has, and how many commands were counted."""
    async with started_world(limits=LIMITS, max_message_bytes=1000) as world:
        server = RespServer(world.broker, {}, sign_in_for() if case.has_users else None, turn_seconds=LONG_TURN_SECONDS)
        client = Client(server)
        if case.user:
            client.send(b"AUTH", token_of(case.user))
            await eventually(lambda: client.transport.take() == b"+OK\r\n")
        for line in case.before:
            await client.say(line)
        if case.max_memory_bytes:
            client.connection.account.set_limit(case.max_memory_bytes, "-max-memory")
        publishes = [command(case.spelled(b"PUBLISH"), case.topic, payload) for payload in case.payloads]
        send(client, [command(case.spelled(b"MULTI")), *publishes, command(case.spelled(b"EXEC"))])
        await settle_down()
        replies, command_count = client.transport.take(), server.commands_processed
        client.connection.connection_lost(None)
        await settle_down()
        return replies, await world.drain(b"t"), command_count


def in_one_read(client: Client, commands: list[bytes]) -> None:
    client.connection.data_received(b"".join(commands))


def one_by_one(client: Client, commands: list[bytes]) -> None:
    for each in commands:
        client.connection.data_received(each)


@pytest.mark.parametrize("name", CASES)
async def test_replies_and_messages_are_those_of_commands_that_come_one_by_one(name, monkeypatch):
    monkeypatch.setattr(transaction, "MAX_COMMANDS", 20)
    assert await exchanged(CASES[name], in_one_read) == await exchanged(CASES[name], one_by_one)


async def test_a_transaction_of_too_many_bytes_is_refused():
    replies, messages, _ = await exchanged(Case((b"x" * 1000,) * 20), in_one_read)
    assert replies.startswith(b"+OK\r\n+QUEUED\r\n")
    assert b"-LIMIT the commands of the transaction need " in replies
    assert replies.endswith(b"-EXECABORT Transaction discarded because of previous errors\r\n")
    assert messages == []


async def test_a_commit_that_fails_is_unknown(world, client):
    world.store.fail_writes = {world.store.write_count + 1, world.store.write_count + 2}
    in_one_read(client, [command(b"MULTI"), command(b"PUBLISH", b"t", b"1"), command(b"EXEC")])
    await settle_down()
    lines = client.transport.take().split(b"\r\n")
    assert lines[:2] == [b"+OK", b"+QUEUED"]
    assert lines[2].startswith(b"-UNKNOWN ")
    assert len(lines) == 4
