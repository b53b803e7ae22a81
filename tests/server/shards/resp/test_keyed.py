"""PUBs with keys that come in one pipeline at the door of a shard: to spread topics, and to topics of other shards."""

from collections.abc import Callable

import pytest

from miniqueue.core.message.parts import part_for, part_name
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import PLACING, TOPICS, fleet_in
from tests.server.shards.resp.clients import DoorClient

TOPIC = TOPICS[1].encode()
PARTS = 5
KEYS = [b"key-%d" % number for number in range(24)]


def pubs(topic: bytes, *, large_at: int = -1) -> list[tuple[bytes, ...]]:
    payloads = [b"%b:%d" % (key, index) for index, key in enumerate(KEYS)]
    if large_at >= 0:
        payloads[large_at] *= 10
    return [(b"PUB", topic, payload, b"KEY", key) for payload, key in zip(payloads, KEYS, strict=True)]


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    """A client for which the topic has been created."""
    client = connect()
    settings = b"spread", b"%d" % PARTS, b"max_message_bytes", b"40"
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
    return client


def places_of(replies: list[bytes]) -> list[int]:
    """Return the part in each reply."""
    return [int(reply.split(b"\r\n")[1].partition(b"-")[0]) >> 10 for reply in replies]


async def test_each_message_is_answered_in_its_place_by_the_part_of_its_key(client):
    client.tell((b"ECHO", b"before"), *pubs(TOPIC), (b"LEN", TOPIC), *pubs(TOPIC))
    before, *replies = await client.hear(50)
    assert (before, replies.pop(24)) == (b"$6\r\nbefore\r\n", b":24\r\n")
    assert places_of(replies) == [part_for(key, PARTS) for key in KEYS * 2]
    assert len(set(replies)) == 48


async def test_each_shard_gets_its_messages_as_one_list_for_each_part(client, fleet, monkeypatch):
    lists = list[tuple[bytes, int]]()
    for member in fleet.members:
        publish_batch = member.broker.publish_batch

        def publish(name, payloads, *others, publish_batch=publish_batch):
            lists.append((name, len(payloads)))
            return publish_batch(name, payloads, *others)

        monkeypatch.setattr(member.broker, "publish_batch", publish)
    client.tell(*pubs(TOPIC))
    await client.hear(24)
    parts = [part_for(key, PARTS) for key in KEYS]
    counts = [(part_name(TOPIC, number), parts.count(number)) for number in range(PARTS)]
    assert sorted(lists) == [(part, count) for part, count in counts if count > 1]


@pytest.mark.parametrize("at", range(0, 24, 5))
async def test_a_message_that_its_part_refuses_is_refused_alone(client, at):
    client.tell(*pubs(TOPIC, large_at=at))
    replies = await client.hear(24)
    assert [index for index, reply in enumerate(replies) if reply.startswith(b"-TOOBIG")] == [at]
    del replies[at]
    assert places_of(replies) == [part_for(key, PARTS) for index, key in enumerate(KEYS) if index != at]
    assert await client.ask(b"LEN", TOPIC) == b":23\r\n"


async def test_messages_of_a_shard_that_does_not_answer_are_refused_alone(client, fleet):
    fleet.lose(2)
    client.tell(*pubs(TOPIC))
    replies = await client.hear(24)
    away = {part_for(key, PARTS) for key, reply in zip(KEYS, replies, strict=True) if reply.startswith(b"-TRYAGAIN")}
    present = {part_for(key, PARTS) for key, reply in zip(KEYS, replies, strict=True) if reply.startswith(b"$")}
    assert (away & present, away | present) == (set(), set(range(PARTS)))
    assert 0 < len(away) < PARTS


async def test_a_failed_commit_is_an_error_for_the_messages_of_its_shard(client, fleet):
    store = fleet.members[0].store
    store.fail_writes = {store.write_count + 1}
    client.tell(*pubs(TOPIC))
    replies = await client.hear(24)
    own = {number for number in range(PARTS) if PLACING.shard_of_part(TOPIC, number) == 0}
    assert [reply.startswith(b"-UNKNOWN ") for reply in replies] == [part_for(key, PARTS) in own for key in KEYS]


@pytest.mark.parametrize("shard", range(3))
async def test_messages_with_keys_of_any_topic_are_answered_in_order(connect, shard):
    client, topic = connect(), TOPICS[shard].encode()
    client.tell((b"PUBLISH", topic, b"x"), *pubs(topic), (b"PUBLISH", topic, b"x"), (b"LEN", topic))
    replies = await client.hear(27)
    ids = [b"0-%d" % number for number in range(1, 25)]
    assert replies == [b"+OK\r\n", *[b"$%d\r\n%b\r\n" % (len(word), word) for word in ids], b"+OK\r\n", b":26\r\n"]


async def test_a_client_that_knows_the_nodes_is_sent_to_the_shard_of_each_message_with_a_key(connect):
    client = connect()
    await client.ask(b"CLUSTER", b"SLOTS")
    client.tell(*pubs(TOPIC))
    replies = await client.hear(24)
    assert len({reply.split()[0] for reply in replies}) == len(set(replies)) == 1
    assert replies[0].startswith(b"-MOVED ")


@pytest.mark.parametrize("topic", TOPICS[1:])
async def test_messages_with_keys_are_those_of_the_user_of_the_moment(tmp_path, topic):
    ann, bob, name = user("ann", admin=("*",)), user("bob", publisher=("*",)), topic.encode()
    async with fleet_in(tmp_path, sign_in_for(ann, bob)) as fleet:
        client = DoorClient(fleet.members[0].resp)
        await client.ask(b"AUTH", b"ann", token_of("ann"))
        if topic == TOPICS[1]:
            await client.ask(b"TOPIC", b"CREATE", name, b"spread", b"6")
        for each in (b"ann", b"bob"):
            assert await client.ask(b"AUTH", each, token_of(each.decode())) == b"+OK\r\n"
            client.tell(*pubs(name))
            assert {reply[:1] for reply in await client.hear(24)} == {b"$"}
            users = [link.session.user for member in fleet.members for link in member.resp.shared.linked()]
            assert set(users) == {each}
        client.tell((b"PUBLISH", name, b"x"), *pubs(name), (b"RESET",), *pubs(name))
        assert [reply[:1] for reply in await client.hear(50)] == [b"+"] + [b"$"] * 24 + [b"+"] + [b"-"] * 24
        client.transport.lose()


async def test_no_client_can_name_a_part_for_messages_with_keys(client):
    client.tell(*pubs(part_name(TOPIC, 0)))
    assert all(reply.startswith(b"-BADTOPIC") for reply in await client.hear(24))
