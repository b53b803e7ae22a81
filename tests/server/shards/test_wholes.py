"""A spread topic is one topic wherever topics are counted, listed, and named."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import hiredis
import pytest

from miniqueue.broker.model.shares import Pool
from miniqueue.core.settings.quotas import Quotas
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, TOPICS, Fleet, fleet_in, topic_in
from tests.server.shards.resp.clients import DoorClient

TOPIC, PLAIN = TOPICS[1].encode(), TOPICS[0].encode()
PARTS = 5
MESSAGES = 3 * PARTS


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet_in(tmp_path) as fleet:
        yield fleet


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[DoorClient]:
    """A client for which a spread topic, with dead letters in each part, and a plain one have been created."""
    client = DoorClient(fleet.members[0].resp)
    settings = b"spread", b"%d" % PARTS, b"max_deliveries", b"1"
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
    await client.ask(b"PUB", PLAIN, b"x")
    for number in range(MESSAGES):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    yield client
    client.transport.lose()


def value_of(reply: bytes):
    reader = hiredis.Reader()
    reader.feed(reply)
    value = reader.gets()
    assert not isinstance(value, hiredis.ReplyError), value
    return value


async def make_dead_letters(client: DoorClient) -> None:
    """Reject one message."""
    [[receipt, *_]] = value_of(await client.ask(b"RECEIVE", TOPIC))
    assert await client.ask(b"NACK", TOPIC, receipt, b"SYNC") == b"+OK\r\n"


async def counts_of_topics(client: DoorClient) -> list[int]:
    """Return the number of topics in STATS, in INFO, and in the list of them."""
    stats = value_of(await client.ask(b"STATS"))
    assert len(set(stats[::2])) == len(stats[::2])
    info = value_of(await client.ask(b"INFO"))
    in_info = re.search(rb"^topics:(\d+)\r$", info, re.MULTILINE)
    assert in_info is not None
    topics = value_of(await client.ask(b"TOPICS"))
    return [dict(zip(stats[::2], stats[1::2], strict=True))[b"topics"], int(in_info[1]), len(topics)]


async def test_a_spread_topic_counts_once_and_so_do_its_dead_letters(client):
    assert await counts_of_topics(client) == [2, 2, 2]
    await make_dead_letters(client)
    assert await counts_of_topics(client) == [3, 3, 3]
    assert b"topics:" not in await client.ask(b"INFO", b"clients")


async def test_usage_counts_a_spread_topic_once_in_all_shards(client, fleet):
    await make_dead_letters(client)
    assert [member.broker.topic_count for member in fleet.members] == [1, 1, 0]
    [usage] = [dict(zip(row[::2], row[1::2], strict=True)) for row in value_of(await client.ask(b"USAGE"))]
    assert usage[b"topics"][:2] == [b"used", 2]


async def test_a_quota_of_topics_counts_the_parts_and_copies_of_none(client, fleet):
    for member in fleet.members:
        await member.broker.admin.assume(TOPIC, member.broker.admin.settings_of(TOPIC)._replace(owner="ann")).wait()
    assert [member.broker.shares.used(Pool.TOPICS, "ann") for member in fleet.members] == [0, 1, 0]
    await client.ask(b"TOPIC", b"DELETE", TOPIC)
    assert [member.broker.shares.used(Pool.TOPICS, "ann") for member in fleet.members] == [0] * COUNT


async def test_metrics_name_a_spread_topic_and_add_up_its_parts(client, fleet):
    scrape = (await fleet.look("/metrics")).body.decode()
    ready = re.findall(rf'miniqueue_messages{{shard="(\d)",state="ready",topic="{TOPIC.decode()}"}} (\S+)', scrape)
    assert len(ready) == len({shard for shard, _ in ready}) == COUNT
    assert sum(float(value) for _, value in ready) == MESSAGES
    lags = re.findall(r'group_partition_lag{shard="\d",group="default",partition="(\d+)"', scrape)
    assert sorted(map(int, lags)) == [number << 10 for number in range(PARTS)]
    assert sum(int(count) for count in re.findall(r'miniqueue_topics{shard="\d"} (\d+)', scrape)) == 2


async def test_a_stream_of_all_parts_is_one_consumer(client, fleet):
    stream = DoorClient(fleet.members[0].resp)
    await stream.ask(b"SUBSCRIBE", TOPIC)
    async with asyncio.timeout(60):
        while await statistic_of(client, b"leased") < PARTS:
            pass  # each question waits for all parts
    assert await statistic_of(client, b"consumers") == 1
    assert (await fleet.look("/stats")).json["topics"][TOPIC.decode()]["consumers"] == 1
    scrape = (await fleet.look("/metrics")).body.decode()
    for family in ("consumers", "group_consumers"):
        counts = re.findall(rf'miniqueue_{family}{{shard="\d",.*topic="{TOPIC.decode()}"}} (\S+)', scrape)
        assert [*map(float, counts)] == [1] * COUNT
    stream.transport.lose()


async def statistic_of(client: DoorClient, name: bytes) -> int:
    reply = value_of(await client.ask(b"STATS", TOPIC))
    return dict(zip(reply[::2], reply[1::2], strict=True))[name]


async def test_lists_over_http_have_a_spread_topic_once(client, fleet):
    for door in range(COUNT):
        listed = (await fleet.ask("GET", "/topics", door=door)).json["topics"]
        counts = {row["topic"]: (row["depth"], row["ready"]) for row in listed}
        assert counts == {TOPIC.decode(): (MESSAGES, MESSAGES), PLAIN.decode(): (1, 1)}
        stats = (await fleet.look("/stats", door=door)).json["topics"]
        assert stats.keys() == counts.keys()
        assert stats[TOPIC.decode()]["ready"] == MESSAGES


async def test_leases_name_the_topic(client: DoorClient, fleet: Fleet):
    await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"3")
    held = [
        await member.broker.leases.of_group(part, b"default", None, 0, 10)
        for member in fleet.members
        for part in member.broker.parts_here(TOPIC)
    ]
    assert {each.topic for listed in held for each in listed} == {TOPIC}


async def test_what_happens_to_a_spread_topic_is_one_event(client: DoorClient, fleet: Fleet):
    listener, topic = DoorClient(fleet.members[2].resp), TOPICS[2].encode()
    listener.tell((b"EVENTS",))
    await listener.hear()
    for words in (
        (b"TOPIC", b"CREATE", topic, b"spread", b"4"),
        (b"TOPIC", b"SET", topic, b"ttl_seconds", b"9"),
        (b"PAUSE", topic, b"IN"),
        (b"RESUME", topic),
        (b"GROUP", b"CREATE", topic, b"g"),
        (b"PAUSE", topic, b"OUT", b"GROUP", b"g"),
        (b"TOPIC", b"DELETE", topic),
    ):
        assert (await client.ask(*words)) in (b"+OK\r\n", b":1\r\n")
    kinds = list[bytes]()
    while b"topic-deleted" not in kinds:
        [reply] = await listener.hear()
        kinds.append(value_of(reply)[1])
    expected = [
        b"topic-created",
        b"topic-changed",
        b"paused",
        b"resumed",
        b"group-created",
        b"paused",
        b"topic-deleted",
    ]
    assert sorted(kinds) == sorted(expected)
    listener.transport.lose()


async def test_a_quota_of_one_topic_permits_a_spread_one_with_its_dead_letters(tmp_path):
    async with fleet_in(tmp_path, sign_in_for(user("ada", admin=("*",)))) as fleet:
        for member in fleet.members:
            member.broker.set_quotas({"ada": Quotas(max_topics=1)})
        client = DoorClient(fleet.members[0].resp)
        assert await client.ask(b"AUTH", b"ada", token_of("ada")) == b"+OK\r\n"
        settings = b"spread", b"%d" % PARTS, b"max_deliveries", b"1"
        assert await client.ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
        await client.ask(b"PUB", TOPIC, b"x")
        await make_dead_letters(client)
        assert await client.ask(b"LEN", TOPIC + b".dlq") == b":1\r\n"
        refused = await client.ask(b"TOPIC", b"CREATE", topic_in(1, "more").encode())  # where the spread one is counted
        assert refused.startswith(b"-LIMIT")
        client.transport.lose()
