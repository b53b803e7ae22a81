"""The client over HTTP/2 receives, settles, and has transactions, with the methods and results of the RESP clients."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from miniqueue.errors import RequestError
from miniqueue_client import DisconnectedError, Outgoing, ServerError
from miniqueue_client.calls import messages, topics
from miniqueue_client.http2.requests import encode, encode_transaction
from tests.fakes import FakeConsumer
from tests.serving import serving


@asynccontextmanager
async def connected(certificates):
    async with serving(certificates) as served:
        yield await served.client(), served


async def received(client, served, count=1):
    """Publish messages to a topic `t`; return them when they are leased."""
    await served.broker.publish(b"t", [b"in"] * count).commit.wait()
    return await client.receive("t", count=count)


def drained(served, topic):
    return FakeConsumer(served.broker, topic).drain()


async def test_a_message_has_all_that_is_known_of_it(certificates):
    async with connected(certificates) as (client, _):
        async with client.transaction() as transaction:
            transaction.publish("t", b"\x00\xff", key="k", headers={"Name": "ä"}, ttl_seconds=60)
        [message] = await client.receive("t", group="default", lease_seconds=5, wait_seconds=1)
        assert (message.payload, message.key, message.headers) == (b"\x00\xff", b"k", (("Name", "ä".encode()),))
        assert (message.topic, message.id, message.deliveries) == ("t", "0-0", 1)
        assert message.expires_at_ms == message.published_at_ms + 60_000
        assert await client.nack("t", message, reason="it failed") == [True]
        [again] = await client.receive("t")
        assert (again.deliveries, again.counts.nacks, again.failure) == (2, 1, "it failed")
        await client.reject("t", again, reason="no use")
        [letter] = await client.receive("t.dlq", wait_seconds=60, autoack=True)
        assert (letter.origin.topic, letter.origin.reason, letter.origin.counts.nacks) == ("t", "no use", 1)
        assert (letter.receipt, await client.receive("t")) == ("", [])


async def test_settles_outside_of_a_transaction(certificates):
    async with connected(certificates) as (client, served):
        one, two, three, four = await received(client, served, 4)
        synced = served.store.sync_count
        assert await client.ack("t", one, "what-1", sync=True) == [True, False]
        assert served.store.sync_count == synced + 1
        assert await client.back("t", two) == [True]
        assert await client.dack("t", three, seconds=60) == [True]
        assert await client.extend("t", four, seconds=60) == [True]
        assert await client.ack("t", one) == [False]
        stats = served.broker.stats()[b"t"]
        assert (stats.ready, stats.delayed, stats.leased, stats.acknowledged) == (1, 1, 1, 1)


async def test_a_receive_that_is_refused(certificates):
    async with connected(certificates) as (client, _):
        with pytest.raises(ServerError) as refused:
            await client.receive("no topic", count=2)
        assert (refused.value.code, refused.value.status) == ("BADTOPIC", 400)


async def test_what_a_block_publishes_and_settles_is_done_at_its_end(certificates):
    async with connected(certificates) as (client, served):
        [message] = await received(client, served)
        async with client.transaction() as transaction:
            transaction.publish("a", b"\x00\xff", key="k", headers={"h": "v"}, ttl_seconds=60)
            transaction.publish_many("b", ["two", "three"])
            transaction.publish_each("b", [Outgoing("four", headers=[("h", "1"), ("h", "2")]), Outgoing("five")])
            transaction.ack("t", message)
            assert served.broker.topics() == [b"t"]
        assert transaction.results == ["0-0", ["0-0", "0-1"], ["0-2", "0-3"], [True]]
        assert served.broker.stats()[b"t"].acknowledged == 1
        assert drained(served, b"a") == [b"\x00\xff"]
        assert drained(served, b"b") == [b"two", b"three", b"four", b"five"]


async def test_each_settle(certificates):
    async with connected(certificates) as (client, served):
        one, two, three, four, five, six = await received(client, served, 6)
        async with client.transaction() as transaction:
            transaction.nack("t", one, seconds=5, reason="it failed")
            transaction.nack("t", six)
            transaction.back("t", two)
            transaction.dack("t", three, seconds=timedelta(minutes=1))
            transaction.reject("t", four, reason="SYNC")
            transaction.extend("t", five, seconds=60)
        assert transaction.results == [[True]] * 6
        stats = served.broker.stats()[b"t"]
        assert (stats.ready, stats.delayed, stats.leased) == (2, 2, 1)
        [letter] = await served.broker.inspect.peek(b"t.dlq")
        assert b"SYNC" in letter.stored.attributes


@pytest.mark.parametrize("sync", [False, True])
async def test_with_sync_of_one_settle_all_of_it_is_on_the_disk(sync, certificates):
    async with connected(certificates) as (client, served):
        one, two = await received(client, served, 2)
        synced = served.store.sync_count
        async with client.transaction() as transaction:
            transaction.publish("a", "x")
            transaction.ack("t", one)
            transaction.nack("t", two, reason="late", sync=sync)
        assert served.store.sync_count == synced + sync


async def test_a_duplicate_is_marked(certificates):
    async with connected(certificates) as (client, _):
        for is_again in (False, True):
            async with client.transaction() as transaction:
                transaction.publish("a", "x", dedup_id="1")
                transaction.publish_many("a", ["y", "z"], dedup_id="2")
            assert transaction.results == ["0-0", ["0-1", "0-2"]]
            assert [each.is_duplicate for each in transaction.results] == [is_again] * 2


async def test_an_act_that_is_impossible_is_named_and_nothing_is_done(certificates):
    async with connected(certificates) as (client, served):
        transaction = client.transaction()
        transaction.publish_many("a", ["x", "y"])
        transaction.ack("t", "what-1")
        with pytest.raises(ServerError, match="act 2 of 2") as refused:
            async with transaction:
                pass
        assert (refused.value.code, refused.value.status) == ("NOLEASE", 409)
        assert served.broker.topics() == []


async def test_a_block_that_raises_sends_nothing_and_an_empty_one_neither(certificates):
    async with connected(certificates) as (client, served):
        transaction, empty = client.transaction(), client.transaction()

        async def act():
            async with transaction:
                transaction.publish("a", "x")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await act()
        async with empty:
            pass
        assert (transaction.results, empty.results, served.broker.topics()) == ([], [], [])


async def test_a_connection_that_is_lost_leaves_the_outcome_open(certificates):
    async with connected(certificates) as (client, _):
        client.close()
        with pytest.raises(DisconnectedError):
            async with client.transaction() as transaction:
                transaction.publish("a", "x")


def test_every_option_of_a_publish_has_a_member():
    at = datetime(2026, 12, 1, tzinfo=UTC)
    calls = [
        messages.publish("t", "x", at=at, priority="high", dedup_id="d", unique_key="u"),
        messages.publish("t", "x", delay_seconds=1.5, key=b"k"),
    ]
    path, body = encode_transaction(calls)
    assert list(map(orjson.loads, body.splitlines())) == [
        {"publish": "t", "msg": "eA==", "at": "1796083200000", "priority": "high", "unique": "u", "dedup": "d"},
        {"publish": "t", "msg": "eA==", "delay": "1.5", "key": "k"},
    ]
    assert path == "/transactions"


def test_a_key_that_is_no_text_is_refused():
    with pytest.raises(RequestError, match="must be UTF-8"):
        encode_transaction([messages.publish("t", "x", key=b"\xff")])


def test_calls_that_neither_receive_nor_settle_are_refused():
    for call in (messages.publish("t", "x"), topics.length("t")):
        with pytest.raises(RequestError, match="no command of the client over HTTP/2"):
            encode(call)
