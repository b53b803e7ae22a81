"""Clients of a broker whose shards have ports: a call goes to the shard with its topic, or to another if it must."""

import os
import random
import signal
from collections.abc import Iterator

import pytest

from miniqueue.core.message.slots import SLOT_COUNT
from miniqueue.core.settings.placing import Placing
from miniqueue_client import AsyncClient, Client, RefusedError
from miniqueue_client.address import Address
from miniqueue_client.calls import groups, messages, topics
from miniqueue_client.calls.call import Call
from miniqueue_client.calls.transaction import pipeline_of
from miniqueue_client.routes import Routes, is_cluster, shows_a_part, slot_of, topic_of
from tests.acceptance.shards.conftest import SHARDS, ShardedBroker, nodes_in, readers, topic_in

URL = "redis://user:secret@host:6379?client_name=me"


# --- where a call goes ----------------------------------------------------------------------------------------


def shown(shard_count: int) -> list[object]:
    """Return the reply to CLUSTER SLOTS of a broker, which begins with any shard."""
    placing = Placing(0, shard_count)
    slots = [(shard, placing.slots_of(shard)) for shard in range(shard_count)]
    return [[each.start, each.stop - 1, [b"node", 7000 + shard, b"id", []]] for shard, each in reversed(slots)]


def routes_of(shard_count: int, now: list[float] | None = None) -> Routes:
    routes = Routes(Address(URL), lambda: now[0] if now else 0.0)
    routes.learn(shown(shard_count))
    return routes


def port_of_url(url: str) -> int:
    return int(url.rpartition(":")[2].partition("?")[0])


@pytest.mark.parametrize("seed", range(5))
def test_the_client_places_topics_as_the_broker_does(seed):
    chance = random.Random(seed)
    shard_count = chance.randint(1, 64)
    placing, routes = Placing(0, shard_count), routes_of(shard_count)
    for _ in range(300):
        name = "".join(chance.choice(["a", "b1", "{x}", "{}", "{", "}", ".dlq", "."]) for _ in range(5))
        url = routes.urls_for([messages.publish(name, b"x")])[0]
        assert port_of_url(url) == 7000 + placing.shard_of(name.encode())
        assert 0 <= slot_of(name.encode()) < SLOT_COUNT


def test_the_url_of_a_node_is_that_of_the_client_with_another_host_and_port():
    routes = Routes(Address(URL))
    routes.learn([[0, 8191, [b"::1", 7000, b"id", []]], [8192, 16383, [b"", 7001, b"id", []]]])
    urls = routes.urls_for([messages.publish("b", b"x")])
    assert sorted(urls) == sorted(
        [URL, "redis://user:secret@[::1]:7000?client_name=me", "redis://user:secret@host:7001?client_name=me"]
    )
    assert "secret" not in repr(routes.address_of(urls[0]))


def test_calls_are_cut_by_node_unless_one_has_no_topic():
    routes = routes_of(SHARDS)
    first, second = topic_in(0, "a"), topic_in(1, "b")
    publishes = [messages.publish(topic, b"x") for topic in (first, second, first)]
    assert routes.parts_of(publishes) == [[0, 2], [1]]
    assert routes.parts_of([*publishes, topics.topics()]) == [[0, 1, 2, 3]]
    assert routes.parts_of(pipeline_of(publishes)) == [[0, 1, 2, 3, 4]]
    assert port_of_url(routes.urls_for(pipeline_of([publishes[1]]))[0]) == 7001
    assert Routes(Address(URL)).parts_of(publishes) == [[0, 1, 2]]


def test_a_node_is_left_out_for_some_time():
    now = [100.0]
    routes, call = routes_of(SHARDS, now), messages.publish(topic_in(1, "t"), b"x")
    best = routes.urls_for([call])[0]
    assert port_of_url(best) == 7001
    routes.leave_out(best, 5.0)
    assert routes.urls_for([call])[0] == URL
    assert routes.urls_for([call])[-1] == best
    now[0] += 6.0
    assert routes.urls_for([call])[0] == best


def test_topics_of_calls():
    assert topic_of(topics.create_topic("t")) == b"t"
    assert topic_of(groups.groups("t")) == b"t"
    assert topic_of(messages.receive("t")) == b"t"
    assert topic_of(topics.topics()) is None
    assert topic_of(topics.stats()) is None
    assert topic_of(messages.receive_any("t")) is None


def replies_of_part(number: int) -> dict[str, object]:
    """Return what a part of a spread topic replies, by command."""
    message_id, receipt = b"%d-7" % (number << 10), b"5f0c-%d" % (number << 57 | 12)
    return {
        "PUB": message_id,
        "MPUBLISH": [message_id],
        "PUBEACH": [[message_id], 0],
        "PUBPACKED": [[message_id, 1], 0],
        "RECEIVE": [[receipt, b"x", {b"id": message_id}]],
    }


def test_clients_of_a_spread_topic_use_all_nodes():
    topic, ports = topic_in(0, "spread-"), set[int]()
    for _ in range(50):
        routes = routes_of(SHARDS)
        call = messages.publish(topic, b"x")
        routes.note([call], [b"0-17"])
        assert port_of_url(routes.urls_for([call])[0]) == 7000
        routes.note([call], [b"1024-17"])
        [*positions] = routes.parts_of([call, messages.publish(topic_in(1, "t"), b"x"), call])
        assert [0, 2] in positions or positions == [[0, 1, 2]]
        ports.add(port_of_url(routes.urls_for([call])[0]))
    assert ports == {7000 + shard for shard in range(SHARDS)}


@pytest.mark.parametrize("word", replies_of_part(0))
def test_ids_and_receipts_show_that_a_topic_is_spread(word):
    call: Call[object] = Call((word, "t"), lambda reply: reply)
    assert [shows_a_part(call, replies_of_part(number)[word]) for number in (0, 1, 63)] == [False, True, True]
    for other in ([], None, b"", b"x", [[b"", b"x", {}]], RefusedError("LIMIT", "full")):
        assert not shows_a_part(call, other)
    assert not shows_a_part(Call(("LEN", "t"), int), 1 << 60)


# --- real brokers ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardedBroker]:
    with nodes_in(tmp_path_factory.mktemp("nodes")) as broker:
        yield broker


def url_of(broker: ShardedBroker) -> str:
    return f"redis://127.0.0.1:{broker.resp_port}"


def test_calls_go_to_the_shard_with_the_topic(nodes):
    names = [topic_in(shard, "straight-") for shard in range(SHARDS)]
    with Client(url_of(nodes)) as client:
        for name in names:
            client.create_topic(name)
            client.publish(name, b"x")
            [message] = client.receive(name)
            assert message.payload == b"x"
            client.ack(name, message)
        assert readers(nodes, names) == [0, 1, 2]
        assert set(names) <= set(client.topics())
        outcomes = client.execute_all([messages.publish(name, b"y") for name in names * 3])
        assert not any(isinstance(outcome, RefusedError) for outcome in outcomes)
        assert [client.length(name) for name in names] == [3] * SHARDS
        with client.transaction() as transaction:
            transaction.publish(names[2], b"z")
            transaction.publish(f"{names[2]}.dlq", b"z")
        assert [client.length(name) for name in (names[2], f"{names[2]}.dlq")] == [4, 1]
        received = client.receive_any(*names, count=100)
        assert {message.topic for message in received} <= set(names)
        assert received


def test_a_spread_topic_is_used_at_any_node(nodes):
    with Client(url_of(nodes)) as client:
        client.create_topic("wide", spread=SHARDS)
    for number in range(2 * SHARDS):
        with Client(url_of(nodes)) as client:
            for _ in range(2 * SHARDS):
                client.publish("wide", b"x")
            client.publish("wide", b"%d" % number, key=b"k")
            received = client.receive("wide", count=100)
            assert len(received) == 2 * SHARDS + 1
            client.ack("wide", *received)
            assert client.length("wide") == 0


async def test_a_task_sends_calls_to_the_shard_with_the_topic(nodes):
    names = [topic_in(shard, "task-") for shard in range(SHARDS)]
    async with AsyncClient(url_of(nodes)) as client:
        for name in names:
            await client.publish(name, b"x")
            [message] = await client.receive(name)
            await client.ack(name, message)
        assert readers(nodes, names) == [0, 1, 2]
        await client.execute_all([messages.publish(name, b"y") for name in names * 3])
        assert [await client.length(name) for name in names] == [3] * SHARDS


def test_a_transaction_over_two_shards_is_refused(nodes):
    with Client(url_of(nodes)) as client:
        transaction = client.transaction()
        for shard in (0, 1):
            transaction.publish(topic_in(shard, "cross-"), b"x")
        with pytest.raises(RefusedError) as refused, transaction:
            pass
    assert refused.value.code == "CROSSSHARD"


def test_a_shard_that_is_killed_is_found_again(nodes):
    names = [topic_in(shard, "killed-") for shard in range(SHARDS)]
    with Client(url_of(nodes), retries=-1) as client:
        for name in names:
            client.publish(name, b"before")
        os.kill(nodes.shard(1), signal.SIGKILL)
        for name in names:
            client.publish(name, b"after")
            assert [message.payload for message in client.receive(name, count=10)] == [b"before", b"after"]


async def test_a_task_finds_a_shard_again_that_is_killed(nodes):
    names = [topic_in(shard, "lost-") for shard in range(SHARDS)]
    async with AsyncClient(url_of(nodes), retries=-1) as client:
        for name in names:
            await client.publish(name, b"before")
        os.kill(nodes.shard(2), signal.SIGKILL)
        for name in names:
            await client.publish(name, b"after")
            assert [message.payload for message in await client.receive(name, count=10)] == [b"before", b"after"]


async def test_nodes_that_cannot_be_reached_are_replaced_by_the_address_of_the_client(tmp_path):
    names = [topic_in(shard, "hidden-") for shard in range(SHARDS)]
    with nodes_in(tmp_path, "-announce-host", "nowhere.invalid") as broker:
        with Client(url_of(broker)) as client:
            for name in names:
                client.publish(name, b"x")
                assert client.length(name) == 1
        async with AsyncClient(url_of(broker)) as tasks:
            for name in names:
                await tasks.publish(name, b"x")
                assert await tasks.length(name) == 2


async def test_nodes_have_the_tls_and_the_users_of_the_broker(tmp_path):
    password = tmp_path / "password"
    password.write_text("secret-secret\n")
    password.chmod(0o600)
    names = [topic_in(shard, "tls-") for shard in range(SHARDS)]
    with nodes_in(tmp_path, "-resp-tls", "-password-file", str(password)) as broker:
        trusted = {"ssl_ca_certs": str(tmp_path / "certs" / "ca.pem")}
        url = f"rediss://default:secret-secret@127.0.0.1:{broker.resp_port}"
        with Client(url, **trusted) as client:
            for name in names:
                client.publish(name, b"x")
                [message] = client.receive(name)
                client.ack(name, message)
            assert readers(broker, names, ssl=True, password="secret-secret", **trusted) == [0, 1, 2]
        async with AsyncClient(url, **trusted) as tasks:
            for name in names:
                await tasks.publish(name, b"x")
                assert len(await tasks.receive(name)) == 1
            assert readers(broker, names, ssl=True, password="secret-secret", **trusted) == [0, 1, 2]
        with (
            pytest.raises(RefusedError) as refused,
            Client(f"rediss://default:x@127.0.0.1:{broker.first_port}", **trusted) as client,
        ):
            client.ping()
        assert refused.value.code == "WRONGPASS"


def test_a_broker_without_nodes_is_not_asked_for_them(resp_broker):
    with Client(resp_broker.url) as client:
        client.ping()
        connection = client._link._pool.get_connection()
        assert not is_cluster(connection)
        client._link._pool.release(connection)
        assert not client._link._routes.is_known
