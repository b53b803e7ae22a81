"""Spread topics at the doors of three shards: one topic for clients, whose parts are in all shards."""

from collections import defaultdict
from collections.abc import Callable

import hiredis
import pytest

from miniqueue.core.message.parts import part_name
from tests.server.shards.http.fleet import COUNT, PLACING, TOPICS
from tests.server.shards.resp.clients import DoorClient

TOPIC = TOPICS[1].encode()
PARTS = 5


@pytest.fixture
async def client(connect: Callable[..., DoorClient]) -> DoorClient:
    """A client for which the topic has been created."""
    client = connect()
    settings = b"spread", b"%d" % PARTS, b"max_messages", b"1000"
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, *settings) == b"+OK\r\n"
    return client


def value_of(reply: bytes):
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


async def receive(client: DoorClient, *options: bytes) -> list:
    return value_of(await client.ask(b"RECEIVE", TOPIC, *options))


async def test_a_spread_topic_is_created_in_all_shards_and_shown_once(client, connect, fleet):
    for member in fleet.members:
        assert member.broker.spread_of(TOPIC) == PARTS
    parts = [name for member in fleet.members for name in member.broker.topics() if name != TOPIC]
    assert sorted(parts) == [part_name(TOPIC, number) for number in range(PARTS)]
    for door in range(COUNT):
        assert value_of(await connect(door).ask(b"TOPICS")) == [TOPIC]
        settings = value_of(await connect(door).ask(b"TOPIC", b"GET", TOPIC))
        assert dict(zip(settings[::2], settings[1::2], strict=True))[b"max_messages"] == b"1000"
    part = fleet.broker_with(part_name(TOPIC, 0).decode()).admin.settings_of(part_name(TOPIC, 0))
    assert (part.max_messages, part.spread) == (200, 0)


async def test_messages_are_delivered_once_and_in_the_order_of_their_keys(client, connect):
    keys = [b"key-%d" % number for number in range(12)]
    published = [(key, b"%b:%d" % (key, number)) for number in range(10) for key in keys]
    for door in range(COUNT):
        publisher = connect(door)
        own = published[door * 40 : (door + 1) * 40]
        publisher.tell(*[(b"PUB", TOPIC, payload, b"KEY", key) for key, payload in own])
        assert all(reply.startswith(b"$") for reply in await publisher.hear(len(own)))
    assert await client.ask(b"LEN", TOPIC) == b":%d\r\n" % len(published)
    by_key = defaultdict(list)
    while messages := await receive(client, b"COUNT", b"17"):
        for receipt, payload, _ in messages:
            by_key[payload.partition(b":")[0]].append(payload)
            assert await client.ask(b"ACK", TOPIC, receipt) == b"+OK\r\n"
    assert by_key == {key: [payload for other, payload in published if other == key] for key in keys}
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"


async def test_receipts_of_several_parts_are_settled_by_one_command(client):
    for number in range(2 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    receipts = [receipt for receipt, _, _ in await receive(client, b"COUNT", b"100")]
    mixed = receipts[::2] + receipts[1::2]
    assert value_of(await client.ask(b"EXTEND", TOPIC, *mixed, b"60")) == [b"OK"] * len(mixed)
    assert value_of(await client.ask(b"ACK", TOPIC, mixed[0], b"SYNC")) == b"OK"
    outcomes = value_of(await client.ask(b"ACK", TOPIC, *mixed, b"SYNC"))
    assert outcomes[0].startswith(b"NOLEASE")
    assert outcomes[1:] == [b"OK"] * (len(mixed) - 1)
    assert await client.ask(b"LEN", TOPIC) == b":0\r\n"


async def test_messages_without_keys_are_in_all_shards(client, fleet):
    for number in range(2 * PARTS):
        client.tell((b"PUBLISH", TOPIC, b"%d" % number))
        assert await client.hear() == [b"+OK\r\n"]
    for member in fleet.members:
        assert any(member.broker.inspect.depth(name) for name in member.broker.topics() if name != TOPIC)
    received = {payload for _, payload, _ in await receive(client, b"COUNT", b"100", b"AUTOACK")}
    assert received == {b"%d" % number for number in range(2 * PARTS)}


async def test_what_concerns_a_part_of_the_own_shard_takes_no_detour(client, fleet):
    for number in range(2 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
        await client.ask(b"PUBLISH", TOPIC, b"%d" % number)
    receipts = [receipt for receipt, _, _ in await receive(client, b"COUNT", b"100")]
    assert len(receipts) == 4 * PARTS
    for receipt in receipts:
        assert await client.ask(b"ACK", TOPIC, receipt) == b"+OK\r\n"
    assert [len(member.resp.shared.linked()) for member in fleet.members] == [0, 1, 1]


async def test_messages_of_a_pipeline_without_keys_are_in_one_part(client):
    parts = set[bytes]()
    for _ in range(2 * PARTS):
        client.tell(*[(b"PUB", TOPIC, b"x")] * 10, (b"PUBLISH", TOPIC, b"x"), (b"PUB", TOPIC, b"x"))
        ids = [value_of(reply) for reply in await client.hear(12)]
        [part] = {message_id.partition(b"-")[0] for message_id in ids if message_id != b"OK"}
        parts.add(part)
    assert len(parts) == PARTS


async def test_messages_of_several_clients_that_come_together_are_in_one_part(client, connect):
    others = [connect(), connect()]
    for _ in range(2 * PARTS):
        for each in others:
            each.tell(*[(b"PUBLISH", TOPIC, b"x")] * 10)
        for each in others:
            assert await each.hear(10) == [b"+OK\r\n"] * 10
        messages = await receive(client, b"COUNT", b"100", b"AUTOACK")
        assert len({receipt.partition(b"-")[0] for receipt, _, _ in messages}) == 1


async def test_a_pipeline_to_all_parts_is_answered_in_order(client):
    pubs = [(b"PUB", TOPIC, b"%d" % number, b"KEY", b"%d" % number) for number in range(50)]
    refused = (b"PUB", TOPIC, b"x", b"TTL", b"soon")
    client.tell(*pubs, refused, *[(b"PUBLISH", TOPIC, b"x")] * 50, (b"LEN", TOPIC), (b"PING",))
    replies = await client.hear(103)
    assert all(reply.startswith(b"$") for reply in replies[:50])
    assert replies[50].startswith(b"-")
    assert replies[51:] == [b"+OK\r\n"] * 50 + [b":100\r\n", b"+PONG\r\n"]


async def test_pubs_with_unique_keys_keep_the_order_of_their_keys(client):
    keyed = [(b"PUB", TOPIC, b"%d" % n, b"KEY", b"k", *((b"UNIQUE", b"%d" % n) if n % 2 else ())) for n in range(20)]
    client.tell(*keyed, (b"PUB", TOPIC, b"x"))
    await client.hear(21)
    received = [payload for _, payload, _ in await receive(client, b"COUNT", b"100", b"AUTOACK")]
    assert [payload for payload in received if payload != b"x"] == [b"%d" % n for n in range(20)]


async def test_a_dedup_id_meets_its_first_publish(client, connect):
    first = await client.ask(b"PUB", TOPIC, b"x", b"DEDUP", b"7f")
    again = await connect(2).ask(b"PUB", TOPIC, b"x", b"DEDUP", b"7f")
    assert value_of(first) == [value_of(again)[0], 0]
    assert await client.ask(b"LEN", TOPIC) == b":1\r\n"


async def test_ids_lead_to_their_part(client):
    for number in range(2 * PARTS):
        message_id = value_of(await client.ask(b"PUB", TOPIC, b"%d" % number))
        partition, _, seq = message_id.partition(b"-")
        assert (b"%d" % number) in await client.ask(b"READ", TOPIC, partition, seq, b"COUNT", b"1")
    partitions = value_of(await client.ask(b"PARTITIONS", TOPIC))
    assert len(partitions) == PARTS


async def test_messages_without_keys_go_where_shards_answer(client, fleet):
    fleet.lose(2)
    for number in range(20):
        assert (await client.ask(b"PUB", TOPIC, b"%d" % number)).startswith(b"$")
        assert (await fleet.ask("POST", f"/publish/{TOPIC.decode()}", b"x")).status == 201
    fleet.find()
    assert len(await receive(client, b"COUNT", b"100")) == 40


async def test_a_receive_that_waits_gets_what_is_published_to_any_part(client, connect):
    for number in range(PARTS):
        client.tell((b"RECEIVE", TOPIC, b"WAIT", b"30", b"AUTOACK"))
        await connect(1).ask(b"PUB", TOPIC, b"%d" % number)
        [reply] = await client.hear()
        assert value_of(reply)[0][1] == b"%d" % number


async def test_a_connection_holds_one_message_of_any_part_by_get(client, connect, fleet):
    assert await client.ask(b"GET", TOPIC) == b"$-1\r\n"
    for number in range(2 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    payloads = [value_of(await client.ask(b"GET", TOPIC))]
    assert (await client.ask(b"GET", TOPIC)).startswith(b"-OUTSTANDING")
    assert (await client.ask(b"DACK", TOPIC, b"-1")).startswith(b"-BADDELAY")
    for _ in range(2 * PARTS - 1):
        assert await client.ask(b"ACK", TOPIC) == b"+OK\r\n"
        payloads.append(value_of(await client.ask(b"GET", TOPIC)))
    assert sorted(map(int, payloads)) == [*range(2 * PARTS)]
    assert (await connect(2).ask(b"ACK", TOPIC)).startswith(b"-NOLEASE")
    assert await client.ask(b"RESET") == b"+RESET\r\n"
    other = connect(1)
    while (payload := value_of(await other.ask(b"GET", TOPIC))) is None:  # until the link has ended
        pass
    assert payload == payloads[-1]
    assert await other.ask(b"NACK", TOPIC, b"REASON", b"x") == b"+OK\r\n"
    assert (await other.ask(b"ACK", TOPIC)).startswith(b"-NOLEASE")


@pytest.mark.parametrize("topic", [TOPIC, TOPIC + b".dlq"])
async def test_a_command_with_too_many_words_is_refused_and_changes_nothing(client, topic):
    assert await client.ask(b"PUB", topic, b"x") == b"$3\r\n0-0\r\n"
    for command in ([b"GET", topic, b"x"], [b"TOPIC", b"DELETE", topic, b"x"]):
        assert (await client.ask(*command)).startswith(b"-ERR invalid number of args")
    assert len(value_of(await client.ask(b"RECEIVE", topic))) == 1


async def test_a_request_is_answered_through_the_part_of_its_key(client, connect):
    worker = connect(2)
    for number in range(2 * PARTS):
        client.tell((b"REQUEST", TOPIC, b"%d" % number, b"TIMEOUT", b"30", b"KEY", b"k%d" % number))
        worker.tell((b"RECEIVE", TOPIC, b"WAIT", b"30"))
        [reply] = await worker.hear()
        [[receipt, payload, attributes]] = value_of(reply)
        assert attributes[attributes.index(b"key") + 1] == b"k%d" % number
        assert await worker.ask(b"REPLY", TOPIC, receipt, payload + b"!") == b"+OK\r\n"
        assert await client.hear() == [b"$2\r\n%d!\r\n" % number]
    assert (await client.ask(b"REQUEST", TOPIC, b"x", b"TIMEOUT")).startswith(b"-BADOPTION")


@pytest.mark.parametrize("words", [(b"RECEIVE", TOPIC), (b"RECEIVEANY",)])
async def test_a_group_is_created_in_all_parts_by_its_first_use(client, fleet, words):
    for number in range(2 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    topics = () if TOPIC in words else (b"TOPICS", TOPIC)
    assert len(value_of(await client.ask(*words, b"GROUP", b"audit", b"COUNT", b"1", b"AUTOACK", *topics))) == 1
    for member in fleet.members:
        assert all(b"audit" in member.broker.groups.names(part) for part in member.broker.parts_here(TOPIC))
    await receive(client, b"COUNT", b"100", b"AUTOACK")  # the other group loses nothing of it
    assert len(await receive(client, b"GROUP", b"audit", b"COUNT", b"100", b"AUTOACK")) == 2 * PARTS - 1
    await client.ask(b"TOPIC", b"SET", TOPIC, b"auto_create_groups", b"false")
    assert (await client.ask(b"RECEIVE", TOPIC, b"GROUP", b"other")).startswith(b"-NOGROUP")
    assert len(await receive(client, b"GROUP", b"audit")) == 0


async def test_a_group_is_created_in_all_parts_by_its_first_use_by_a_pattern(client, fleet):
    for number in range(2 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    words = b"RECEIVEANY", b"GROUP", b"audit", b"AUTOACK", b"COUNT", b"1", b"PATTERN", TOPIC[:-1] + b"*"
    assert len(value_of(await client.ask(*words))) == 1
    for member in fleet.members:
        assert all(b"audit" in member.broker.groups.names(part) for part in member.broker.parts_here(TOPIC))
    await client.ask(b"TOPIC", b"SET", TOPIC, b"auto_create_groups", b"false")
    assert await client.ask(*(b"other" if word == b"audit" else word for word in words)) == b"*0\r\n"


async def test_dead_letters_that_do_not_exist_yet_are_received_by_a_group(client):
    assert await client.ask(b"RECEIVE", TOPIC + b".dlq", b"GROUP", b"audit") == b"*0\r\n"


async def test_dead_letters_are_spread_and_return(client):
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"max_deliveries", b"1") == b"+OK\r\n"
    for number in range(2 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    for receipt, _, _ in await receive(client, b"COUNT", b"100"):
        assert await client.ask(b"NACK", TOPIC, receipt, b"SYNC") == b"+OK\r\n"
    assert value_of(await client.ask(b"TOPICS")) == [TOPIC, TOPIC + b".dlq"]
    assert await client.ask(b"LEN", TOPIC + b".dlq") == b":%d\r\n" % (2 * PARTS)
    assert await client.ask(b"REDRIVE", TOPIC + b".dlq") == b":%d\r\n" % (2 * PARTS)
    assert len(await receive(client, b"COUNT", b"100")) == 2 * PARTS


async def test_a_spread_topic_is_paused_and_deleted_as_a_whole(client, fleet):
    assert await client.ask(b"PAUSE", TOPIC, b"IN") == b"+OK\r\n"
    assert [(await client.ask(b"PUB", TOPIC, b"x"))[:7] for _ in range(PARTS)] == [b"-PAUSED"] * PARTS
    assert await client.ask(b"RESUME", TOPIC) == b"+OK\r\n"
    assert (await client.ask(b"PUB", TOPIC, b"x")).startswith(b"$")
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    assert [member.broker.topics() for member in fleet.members] == [[]] * COUNT


async def test_new_parts_have_the_groups_of_the_others(client, fleet):
    assert await client.ask(b"GROUP", b"CREATE", TOPIC, b"audit", b"IDLE", b"30") == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"8") == b"+OK\r\n"
    for number in range(8):
        name = part_name(TOPIC, number)
        broker = fleet.broker_with(name.decode())
        assert sorted(broker.groups.names(name)) == [b"audit", b"default"]
        assert broker.admin.settings_of(name).idle_groups == (("audit", 30.0),)
    keys = [b"key-%d" % number for number in range(30)]
    for key in keys:
        await client.ask(b"PUB", TOPIC, key, b"KEY", key)
    await receive(client, b"COUNT", b"100", b"AUTOACK")
    assert len(await receive(client, b"GROUP", b"audit", b"COUNT", b"100")) == len(keys)


async def test_the_number_of_parts_grows(client, fleet):
    await client.ask(b"PUB", TOPIC, b"x", b"KEY", b"k")
    assert await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"8") == b"+OK\r\n"
    assert [member.broker.spread_of(TOPIC) for member in fleet.members] == [8] * COUNT
    assert len(value_of(await client.ask(b"PARTITIONS", TOPIC))) == 8
    assert (await client.ask(b"TOPIC", b"SET", TOPIC, b"spread", b"5")).startswith(b"-BADSETTING")
    assert len(await receive(client)) == 1


@pytest.mark.parametrize("words", [(b"PUB", b"x"), (b"RECEIVE",), (b"LEN",), (b"SUBSCRIBE",)])
async def test_no_client_can_name_a_part(client, words):
    word, *rest = words
    for number in range(PARTS):
        assert (await client.ask(word, part_name(TOPIC, number), *rest)).startswith(b"-BADTOPIC")
    assert (await client.ask(b"RECEIVEANY", b"TOPICS", part_name(TOPIC, 0))).startswith(b"-BADTOPIC")


@pytest.mark.parametrize("name", [part_name(TOPIC, 1), b"none\x1f1"])
async def test_no_part_is_the_target_of_a_redrive(client, name):
    for topic in (*(each.encode() for each in TOPICS), TOPIC + b".dlq"):
        await client.ask(b"PUB", topic, b"x")
        for command in (
            [b"REDRIVE", topic],
            [b"MESSAGE", b"REDRIVE", topic, b"0-0"],
            [b"MESSAGES", b"REDRIVE", topic],
        ):
            assert (await client.ask(*command, b"TO", name)).startswith(b"-BADTOPIC")
        assert (await client.ask(b"REDRIVE", topic, b"TO", name, b"TASK")).startswith(b"-BADTOPIC")


async def test_no_client_of_http_can_name_a_part(client, fleet):
    answered = await fleet.ask("POST", f"/publish/{part_name(TOPIC, 0).decode()}", b"x")
    assert (answered.status, answered.code) == (400, "BADTOPIC")


async def test_a_part_whose_shard_does_not_answer_is_missed_alone(client, fleet):
    fleet.lose(2)
    replies = [await client.ask(b"PUB", TOPIC, b"x", b"KEY", b"%d" % key) for key in range(4 * PARTS)]
    away = [reply for reply in replies if reply.startswith(b"-TRYAGAIN")]
    assert 0 < len(away) < 4 * PARTS
    assert (await client.ask(b"LEN", TOPIC)).startswith(b"-TRYAGAIN")


async def test_messages_leased_before_a_shard_did_not_answer_are_delivered(client, fleet):
    for number in range(4 * PARTS):
        await client.ask(b"PUB", TOPIC, b"%d" % number)
    present = sum(
        member.broker.inspect.depth(name)
        for member in fleet.members[:2]
        for name in member.broker.topics()
        if name != TOPIC
    )
    fleet.lose(2)
    received = 0
    for _ in range(COUNT * PARTS):  # each begins at another shard
        reply = await client.ask(b"RECEIVE", TOPIC, b"COUNT", b"100")
        received += 0 if reply.startswith(b"-TRYAGAIN") else len(value_of(reply))
    assert received == present


async def test_a_topic_that_one_shard_refuses_is_not_created(connect, fleet):
    client, full = connect(), fleet.members[2].broker
    names = [name for number in range(2_000) if PLACING.shard_of(name := b"full-%d" % number) == 2][:100]
    for name in names:
        await full.admin.create(name, {}).wait()
    refused = await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"3")
    assert refused.startswith(b"-LIMIT ")
    assert [member.broker.spread_of(TOPIC) for member in fleet.members] == [0] * COUNT
    assert value_of(await client.ask(b"TOPICS")) == sorted(names)
    for name in names[:2]:
        await full.delete_topic(name)
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"3") == b"+OK\r\n"


async def test_a_shard_that_was_away_gets_what_it_missed(connect, fleet):
    fleet.lose(2)
    client = connect()
    refused = await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"3")
    assert refused.startswith(b"-TRYAGAIN")
    home = fleet.members[1].shard
    fleet.find()
    await home.spreading.complete(TOPIC)
    assert [member.broker.spread_of(TOPIC) for member in fleet.members] == [3] * COUNT


async def test_a_creation_can_be_repeated_after_tryagain_and_only_then(connect, fleet):
    client, create = connect(), [b"TOPIC", b"CREATE", TOPIC, b"spread", b"3"]
    fleet.lose(2)
    assert (await client.ask(*create)).startswith(b"-TRYAGAIN")
    fleet.find()
    assert (await client.ask(*create, b"ordered", b"true")).startswith(b"-EXISTS ")
    assert await client.ask(*create) == b"+OK\r\n"
    assert [member.broker.spread_of(TOPIC) for member in fleet.members] == [3] * COUNT
    assert (await client.ask(*create)).startswith(b"-EXISTS ")


@pytest.mark.parametrize("away", range(COUNT))
async def test_a_group_of_which_some_parts_had_no_answer_is_created_by_a_repeat(connect, fleet, away):
    client, create = connect(), [b"GROUP", b"CREATE", TOPIC, b"audit", b"FROM", b"earliest"]
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"%d" % PARTS) == b"+OK\r\n"
    fleet.lose(away)
    assert (await client.ask(*create)).startswith(b"-TRYAGAIN")
    fleet.find()
    assert await client.ask(*create) == b"+OK\r\n"
    for number in range(PARTS):
        part = part_name(TOPIC, number)
        assert b"audit" in fleet.broker_with(part.decode()).groups.names(part)
    assert (await client.ask(*create)).startswith(b"-GROUPEXISTS ")


async def test_a_deleted_topic_whose_creation_was_not_completed_can_be_created_as_any(connect, fleet):
    client, create = connect(), [b"TOPIC", b"CREATE", TOPIC, b"spread", b"3"]
    fleet.lose(2)
    assert (await client.ask(*create)).startswith(b"-TRYAGAIN")
    fleet.find()
    assert await client.ask(b"TOPIC", b"DELETE", TOPIC) == b"+OK\r\n"
    assert await client.ask(b"TOPIC", b"CREATE", TOPIC, b"spread", b"2") == b"+OK\r\n"
    assert (await client.ask(*create)).startswith(b"-EXISTS ")


@pytest.mark.parametrize("door", range(COUNT))
async def test_a_client_that_knows_the_nodes_uses_a_spread_topic_at_any(client, connect, door):
    other = connect(door)
    await other.ask(b"CLUSTER", b"SLOTS")
    other.tell(*[(b"PUBLISH", TOPIC, b"x")] * 10, *[(b"PUB", TOPIC, b"x", b"KEY", b"%d" % n) for n in range(10)])
    replies = await other.hear(20)
    assert replies[:10] == [b"+OK\r\n"] * 10
    assert all(reply.startswith(b"$") for reply in replies[10:])
    received = value_of(await other.ask(b"RECEIVE", TOPIC, b"COUNT", b"100"))
    assert len(received) == 20
    receipts = [receipt for receipt, _, _ in received]
    assert value_of(await other.ask(b"ACK", TOPIC, *receipts)) == [b"OK"] * 20
    assert await other.ask(b"LEN", TOPIC) == b":0\r\n"


async def test_each_message_of_a_run_for_an_own_part_counts_as_a_command(client):
    before = client.connection.command_count
    for _ in range(PARTS):
        client.tell(*[(b"PUBLISH", TOPIC, b"x")] * 10)
        await client.hear(10)
    added = client.connection.command_count - before
    assert PARTS < added <= 10 * PARTS
    assert added % 9 == PARTS % 9  # a run that is passed on counts there
