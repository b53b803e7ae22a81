"""PUB with unique keys or dedup ids in a pipeline: one commit for all, and a reply for each, in order."""

import asyncio

import pytest

from miniqueue.server.resp.commands import publish
from tests.broker.support import world_with
from tests.fakes import settle_down
from tests.server.resp.clients import Client, command, started_server


def pubs(count: int, option: bytes = b"UNIQUE", topic: bytes = b"t") -> bytes:
    """Encode a pipeline of messages, each with a key of its own."""
    return b"".join(command(b"PUB", topic, b"m%d" % i, option, b"k%d" % i) for i in range(count))


def replies(ids, is_duplicate: bool = False) -> bytes:
    return b"".join(b"*2\r\n$%d\r\n0-%d\r\n:%d\r\n" % (len(b"0-%d" % i), i, is_duplicate) for i in ids)


@pytest.mark.parametrize("option", [b"UNIQUE", b"DEDUP"])
@pytest.mark.parametrize("is_new_topic", [False, True])
async def test_a_pipeline_of_a_hundred_makes_one_commit(option, is_new_topic, world, client):
    if not is_new_topic:
        await world.publish(b"t", b"first")
    before, first = world.store.write_count, 0 if is_new_topic else 1
    client.connection.data_received(pubs(100, option))
    await settle_down()
    assert client.transport.take() == replies(range(first, first + 100))
    assert world.store.write_count == before + 1
    client.connection.data_received(pubs(100, option))
    await settle_down()
    assert client.transport.take() == replies(range(first, first + 100), is_duplicate=True)
    assert world.store.write_count == before + 1


@world_with(max_message_bytes=10)
async def test_duplicates_within_a_pipeline_are_told_and_errors_stay_with_their_commands(world, client):
    await world.publish(b"t", b"first")
    before = world.store.write_count
    lines = (
        b"PUB t a UNIQUE 1",
        b"PUB t 0123456789x UNIQUE 2",
        b"PUB t b UNIQUE",
        b"PUB t c",
        b"PUB t",
        b"pub t d unique 1",
        b"PUB a/b e UNIQUE 3",
        b"PUB t f UNIQUE 3 DEDUP 3",
        b"PUB t g DEDUP 3",
    )
    client.connection.data_received(b"".join(command(*line.split()) for line in lines))
    await settle_down()
    taken = client.transport.take()
    for error in (b"-TOOBIG", b"-BADTOPIC"):
        assert taken.count(error) == 1
    kinds = [line for line in taken.split(b"\r\n") if line[:1] in b"-:0" and line]
    assert [kind.split()[0] for kind in kinds] == [
        *(b"0-1", b":0", b"-TOOBIG", kinds[3].split()[0], b"0-2", kinds[5].split()[0]),
        *(b"0-1", b":1", b"-BADTOPIC", b"0-3", b":0", b"0-3", b":1"),
    ]
    assert kinds[3].startswith(b"-")
    assert kinds[5].startswith(b"-")
    assert world.store.write_count <= before + 2  # the command with too few words ends the first run
    assert await world.drain(b"t") == [b"first", b"a", b"c", b"f"]


async def test_a_failing_commit_is_the_error_of_each_of_a_pipeline(world, client):
    await world.publish(b"t", b"first")
    world.store.fail_writes = {world.store.write_count + 1}
    client.connection.data_received(pubs(100))
    await settle_down()
    taken = client.transport.take().splitlines()
    assert len(taken) == 100
    assert {line.split()[0] for line in taken} == {b"-UNKNOWN"}
    client.connection.data_received(pubs(100))
    await settle_down()
    assert client.transport.take() == replies(range(1, 101))


async def test_a_store_that_cannot_say_who_has_one_key_fails_that_publish_alone(world, client):
    await world.publish(b"t", b"first")
    world.store.fail_scans = {world.store.scan_count + 2}
    client.connection.data_received(pubs(3))
    await settle_down()
    first, second = replies([1]), replies([2])
    taken = client.transport.take()
    assert taken.startswith(first + b"-")
    assert taken.endswith(b"\r\n" + second)
    assert await world.drain(b"t") == [b"first", b"m0", b"m2"]


async def test_other_commands_see_what_was_published_before_them_and_not_what_comes_behind(world, client):
    await world.publish(b"t", b"first")
    client.connection.data_received(pubs(2) + command(b"LEN", b"t") + pubs(4) + command(b"PUBLISH", b"t", b"x"))
    await settle_down()
    behind = replies([1, 2], is_duplicate=True) + replies([3, 4]) + b"+OK\r\n"
    assert client.transport.take() == replies([1, 2]) + b":3\r\n" + behind
    assert (await world.drain(b"t"))[-1] == b"x"


async def test_more_than_are_published_together_follow_together(monkeypatch):
    monkeypatch.setattr(publish, "MAX_TOGETHER", 4)

    async with started_server() as (world, _server, client):
        await world.publish(b"t", b"first")
        client.connection.data_received(pubs(10))
        await settle_down()
        assert client.transport.take() == replies(range(1, 11))


async def test_messages_are_taken_together_up_to_a_size(monkeypatch):
    monkeypatch.setattr(publish, "MAX_TOGETHER_BYTES", 1)
    together = []

    async with started_server() as (world, _server, client):
        several = world.broker.publish_several
        world.broker.publish_several = lambda asked: _noted(together, several, asked)
        client.connection.data_received(pubs(5))
        await settle_down()
        assert client.transport.take() == replies(range(5))
        assert together == [2, 2, 1]


async def _noted(together, several, asked):
    together.append(len(asked))
    return await several(asked)


async def test_pipelines_with_the_same_keys_in_other_orders_do_not_wait_for_each_other(world, server, client):
    await world.publish(b"t", b"first")
    other = Client(server)
    world.store.may_scan.clear()
    there, back = [[command(b"PUB", b"t", b"m", b"UNIQUE", b"%d" % i) for i in ids] for ids in ((1, 2), (2, 1))]
    client.connection.data_received(b"".join(there))
    other.connection.data_received(b"".join(back))
    await settle_down()
    world.store.may_scan.set()
    await settle_down()
    assert client.transport.take() == replies([1, 2])
    assert other.transport.take() == replies([2, 1], is_duplicate=True)


async def test_a_topic_deleted_while_the_store_is_asked_is_made_anew(world, client):
    await world.publish(b"t", b"first")
    world.store.may_scan.clear()
    client.connection.data_received(pubs(3))
    await settle_down()
    deleting = asyncio.create_task(world.broker.delete_topic(b"t"))
    await settle_down()
    world.store.may_scan.set()
    await settle_down()
    await deleting
    assert client.transport.take() == replies(range(3))
    assert await world.drain(b"t") == [b"m0", b"m1", b"m2"]


async def test_who_leaves_while_the_store_is_asked_is_not_answered(world, client):
    await world.publish(b"t", b"first")
    world.store.may_scan.clear()
    client.connection.data_received(pubs(3))
    await settle_down()
    client.connection.connection_lost(None)
    world.store.may_scan.set()
    await settle_down()
    assert client.transport.take() == b""
    assert not world.broker._engine.topics.by_name[b"t"].unique_keys._looked
