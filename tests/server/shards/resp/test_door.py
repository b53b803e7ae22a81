"""Clients of RESP at the doors of three shards, whose backs are real: what they send, and what they get."""

import random
import weakref
from collections.abc import Callable

import hiredis
import pytest

from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message.slots import slot_of
from miniqueue.core.settings.placing import Placing
from miniqueue.core.settings.quotas import Quotas
from tests.server.access import sign_in_for, token_of, user
from tests.server.shards.http.fleet import COUNT, FIRST_PORT, PLACING, TOPICS, Fleet, fleet_in
from tests.server.shards.http.tunnels import until
from tests.server.shards.resp.clients import DoorClient
from tests.transcripts.garbage import collector_off

#: Topics of shards 0, 1, and 2; a client is at the door of shard 0 unless a test says otherwise.
OWN, OTHER, THIRD = (topic.encode() for topic in TOPICS)


@pytest.fixture
def client(connect: Callable[..., DoorClient]) -> DoorClient:
    return connect()


async def payloads_in(fleet: Fleet, topic: bytes) -> list[bytes]:
    """Return what is ready in a topic."""
    broker = fleet.broker_with(topic.decode())
    return [message.stored.payload for message in await broker.inspect.peek(topic, State.READY, 100, None, None)]


# --- one shard ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [OWN, OTHER, THIRD])
async def test_a_topic_of_any_shard_can_be_used_at_any_door(client, fleet, topic):
    assert await client.ask(b"PUB", topic, b"x", b"KEY", b"k") == b"$3\r\n0-0\r\n"
    assert await payloads_in(fleet, topic) == [b"x"]
    received = await client.ask(b"RECEIVE", topic)
    receipt = received.split(b"\r\n")[3]
    assert await client.ask(b"ACK", topic, receipt) == b"+OK\r\n"
    assert await client.ask(b"LEN", topic) == b":0\r\n"
    assert (await client.ask(b"TOPIC", b"CREATE", topic)).startswith(b"-EXISTS")


async def test_replies_to_a_pipeline_over_all_shards_have_the_order_of_its_commands(client, fleet):
    commands = [(b"PUB", topic, b"%d" % number) for number in range(10) for topic in (OWN, OTHER, THIRD)]
    client.tell((b"ECHO", b"first"), *commands, (b"LEN", OTHER), (b"PUB", b"a b", b"x"), (b"ECHO", b"last"))
    replies = await client.hear(len(commands) + 4)
    assert replies[0] == b"$5\r\nfirst\r\n"
    assert replies[1:-3] == [b"$3\r\n0-%d\r\n" % number for number in range(10) for _ in range(COUNT)]
    assert replies[-3] == b":10\r\n"
    assert replies[-2].startswith(b"-BADTOPIC")
    assert replies[-1] == b"$4\r\nlast\r\n"


async def test_runs_of_publish_are_answered_message_by_message(client, fleet):
    topic = OTHER
    client.tell(*[(b"PUBLISH", topic, b"%d" % number) for number in range(50)], (b"PING",))
    assert await client.hear(51) == [b"+OK\r\n"] * 50 + [b"+PONG\r\n"]
    assert await payloads_in(fleet, topic) == [b"%d" % number for number in range(50)]


async def test_a_command_sees_what_is_committed_after_the_reply_of_another_shard(client, fleet):
    own_store = fleet.members[0].broker._engine.journal.store
    own_store.may_write.clear()
    client.tell((b"PUBLISH", OWN, b"x"), (b"PUBLISH", OTHER, b"y"), (b"LEN", OWN))
    other_reply, _, _ = client.connection._replies._outcomes[1]
    await until(lambda: other_reply.is_done)
    own_store.may_write.set()
    assert await client.hear(3) == [b"+OK\r\n", b"+OK\r\n", b":1\r\n"]


async def test_a_pub_with_a_unique_key_takes_no_message_for_another_shard_with_it(client, fleet):
    pubs = [(b"PUB", topic, b"x", b"UNIQUE", b"1") for topic in (OWN, OWN, OTHER)]
    client.tell(*pubs, (b"PUB", THIRD, b"y"))
    first, second, other, third = await client.hear(4)
    assert first == b"*2\r\n$3\r\n0-0\r\n:0\r\n"
    assert second == b"*2\r\n$3\r\n0-0\r\n:1\r\n"
    assert other == first
    assert third == b"$3\r\n0-0\r\n"


async def test_a_shard_that_does_not_answer_refuses_its_topics_alone(client, fleet):
    fleet.lose(1)
    client.tell((b"PUB", OWN, b"x"), (b"PUB", OTHER, b"x"), (b"LEN", OTHER), (b"PUB", THIRD, b"x"), (b"TOPICS",))
    own, other, length, third, topics = await client.hear(5)
    assert [own, third] == [b"$3\r\n0-0\r\n"] * 2
    assert [reply[:9] for reply in (other, length, topics)] == [b"-TRYAGAIN"] * 3


async def test_a_client_that_leaves_while_it_waits_at_another_shard_swallows_nothing(connect, fleet):
    for _ in range(5):
        leaving = connect()
        leaving.tell((b"RECEIVE", OTHER, b"WAIT", b"30"))
        leaving.transport.lose()
    staying = connect()
    staying.tell((b"RECEIVE", OTHER, b"WAIT", b"30"))
    await fleet.wait_until_read(OTHER.decode())
    await connect(2).ask(b"PUB", OTHER, b"for the one that stays")
    [received] = await staying.hear()
    assert b"for the one that stays" in received


async def test_what_a_connection_holds_by_get_returns_when_it_leaves(connect, fleet):
    one, other = connect(), connect()
    await one.ask(b"PUB", OTHER, b"x")
    assert await one.ask(b"GET", OTHER) == b"$1\r\nx\r\n"
    assert await other.ask(b"GET", OTHER) == b"$-1\r\n"
    one.transport.lose()
    await until(
        lambda: fleet.broker_with(OTHER.decode())._engine.topics.by_name[OTHER].default.cursors[0].leased_count == 0
    )
    assert await other.ask(b"GET", OTHER) == b"$1\r\nx\r\n"


async def test_a_stream_of_another_shard_delivers_until_reset(client, fleet):
    await client.ask(b"PUB", OTHER, b"first")
    client.tell((b"SUBSCRIBE", OTHER))
    assert await client.hear() == [b"$5\r\nfirst\r\n"]
    client.tell((b"ACK",), (b"PING",))
    assert await client.hear(2) == [b"+OK\r\n", b"+PONG\r\n"]
    await fleet.publish(OTHER.decode())
    assert await client.hear() == [b"$%d\r\n%b\r\n" % (len(OTHER), OTHER)]
    assert await client.ask(b"RESET") == b"+RESET\r\n"
    assert await client.ask(b"LEN", OTHER) == b":1\r\n"
    assert await client.ask(b"PUB", OWN, b"x") == b"$3\r\n0-0\r\n"


async def test_a_client_that_closes_its_half_after_its_last_ack_gets_the_reply(client, fleet):
    await client.ask(b"PUB", OTHER, b"first")
    assert await client.ask(b"SUBSCRIBE", OTHER) == b"$5\r\nfirst\r\n"
    client.tell((b"ACK",))
    client.connection.eof_received()
    assert await client.hear() == [b"+OK\r\n"]
    await until(lambda: client.transport.is_closed)
    assert await payloads_in(fleet, OTHER) == []


async def test_a_client_that_closes_its_half_in_one_piece_with_all_its_commands_gets_all_replies(client):
    client.tell((b"PUB", OTHER, b"x"), (b"SUBSCRIBE", OTHER), (b"ACK",), (b"PING",))
    client.connection.eof_received()
    assert await client.hear(4) == [b"$3\r\n0-0\r\n", b"$1\r\nx\r\n", b"+OK\r\n", b"+PONG\r\n"]
    await until(lambda: client.transport.is_closed)


async def test_a_client_that_sends_much_behind_a_wait_keeps_what_it_holds(client, connect):
    await client.ask(b"PUB", OTHER, b"x")
    assert await client.ask(b"GET", OTHER) == b"$1\r\nx\r\n"
    client.tell((b"RECEIVE", OTHER, b"WAIT", b"60"))
    for _ in range(3):
        client.tell((b"PING", bytes(40_000)))
    received, *_ = await client.hear(4)
    assert received == b"*0\r\n"
    assert await client.ask(b"ACK", OTHER) == b"+OK\r\n"
    client.tell((b"RECEIVE", OTHER, b"WAIT", b"60"), (b"PING",))  # the next wait is not ended by the last one
    await connect(2).ask(b"PUB", OTHER, b"y")
    received, pong = await client.hear(2)
    assert b"$1\r\ny\r\n" in received
    assert pong == b"+PONG\r\n"


@pytest.mark.parametrize("is_read_at_once", [True, False])
async def test_a_client_that_closes_its_half_behind_a_wait_gets_what_is_there(client, fleet, is_read_at_once):
    client.tell((b"PUB", OTHER, b"x"), (b"RECEIVE", OTHER, b"WAIT", b"60"), (b"RECEIVE", OTHER, b"WAIT", b"60"))
    if not is_read_at_once:
        await fleet.wait_until_read(OTHER.decode())
    client.connection.eof_received()
    _, first, second = await client.hear(3)
    assert b"$1\r\nx\r\n" in first
    assert second == b"*0\r\n"
    await until(lambda: client.transport.is_closed)


@pytest.mark.parametrize("has_ended_before", [False, True])
@pytest.mark.parametrize("command", [(b"PEEK", OTHER, b"COUNT", b"100"), (b"PUBLISH", OTHER, b"y"), (b"TOPICS",)])
async def test_a_client_that_leaves_without_reading_a_reply_leaves_nothing_behind(
    client, fleet, command, has_ended_before
):
    await client.ask(b"PUB", OTHER, b"x")
    client.connection.pause_writing()
    client.tell(command)
    if has_ended_before:
        client.connection.eof_received()
    client.transport.lose()
    await until(lambda: not fleet.members[1].resp.shared.links)


async def test_a_client_that_has_ended_gets_its_replies_when_it_reads(client):
    await client.ask(b"LEN", OTHER)
    client.connection.pause_writing()
    client.tell((b"PUBLISH", OTHER, b"y"))
    client.connection.eof_received()
    client.connection.resume_writing()
    assert await client.hear() == [b"+OK\r\n"]
    await until(lambda: client.transport.is_closed)


async def test_a_stream_takes_no_more_from_its_client_than_its_owner_reads(client, fleet):
    client.tell((b"SUBSCRIBE", OTHER))
    await fleet.wait_until_read(OTHER.decode())
    [link] = [each for each in fleet.members[0].shard.peers._links if each.introduction.kind == "resp"]
    await until(lambda: client.connection.mode is not None)
    link.pause_writing()
    for number in range(3):
        client.tell((b"PING", b"%d" % number))
    assert await client.hear() == [b"$1\r\n0\r\n"]
    for _ in range(2):
        client.tell((b"PING", bytes(100_000)))
    assert not client.transport.is_reading()
    link.resume_writing()
    assert await client.hear(2) == [b"$1\r\n1\r\n", b"$1\r\n2\r\n"]
    assert len(await client.hear(2)) == 2
    assert client.transport.is_reading()


async def test_what_is_published_just_before_a_stream_is_delivered_by_it(client):
    client.tell((b"PUBLISH", OTHER, b"x"), (b"SUBSCRIBE", OTHER))
    assert await client.hear(2) == [b"+OK\r\n", b"$1\r\nx\r\n"]


async def test_a_stream_that_is_refused_leaves_the_connection_as_it_was(client):
    assert (await client.ask(b"SUBSCRIBE", OTHER, b"PREFETCH", b"0")).startswith(b"-BADPREFETCH")
    assert await client.ask(b"PUB", THIRD, b"x") == b"$3\r\n0-0\r\n"


@pytest.mark.parametrize("words", [(b"HELLO", b"3"), (b"CLIENT", b"SETNAME", b"me")])
async def test_a_connection_holds_by_get_whatever_it_says_of_itself(client, words):
    await client.ask(b"PUB", OTHER, b"x")
    assert await client.ask(b"GET", OTHER) == b"$1\r\nx\r\n"
    await client.ask(*words)
    assert await client.ask(b"ACK", OTHER) == b"+OK\r\n"


async def test_leases_are_those_of_all_shards(client):
    for topic in (OWN, OTHER):
        await client.ask(b"PUB", topic, b"x")
        await client.ask(b"GET", topic)
    leases = await client.ask(b"LEASES")
    assert leases.startswith(b"*2\r\n")
    assert OWN in leases
    assert OTHER in leases


async def test_a_connection_that_becomes_another_user_keeps_what_it_holds_as_without_shards(tmp_path):
    sign_in = sign_in_for(user("ann", admin=("*",)), user("bob", subscriber=("*",)))
    async with fleet_in(tmp_path, sign_in) as fleet:
        client = DoorClient(fleet.members[0].resp)
        await client.ask(b"AUTH", b"ann", token_of("ann"))
        for topic in (OWN, OTHER):
            await client.ask(b"PUB", topic, b"x")
            assert await client.ask(b"GET", topic) == b"$1\r\nx\r\n"
        await client.ask(b"AUTH", b"bob", token_of("bob"))
        for topic in (OWN, OTHER):
            assert (await client.ask(b"PUB", topic, b"x")).startswith(b"-NOPERM")
            assert await client.ask(b"ACK", topic) == b"+OK\r\n"
        link = next(iter(fleet.members[1].resp.shared.links))
        assert link.user is not None
        assert link.user.name == "bob"
        client.transport.lose()


# --- transactions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", [OWN, OTHER])
async def test_a_transaction_is_carried_out_by_the_shard_of_its_topics(client, fleet, topic):
    publishes = [(b"PUBLISH", topic, b"%d" % number) for number in range(20)]
    client.tell((b"MULTI",), *publishes[:7])  # a run that comes in two pieces
    client.tell(*publishes[7:], (b"PUB", topic, b"last"), (b"LEN", topic), (b"EXEC",))
    replies = await client.hear(24)
    assert replies[:-1] == [b"+OK\r\n"] + [b"+QUEUED\r\n"] * 22
    assert replies[-1] == b"*22\r\n" + b"+OK\r\n" * 20 + b"$4\r\n0-20\r\n:21\r\n"
    assert await payloads_in(fleet, topic) == [*(b"%d" % number for number in range(20)), b"last"]


@pytest.mark.parametrize("topic", [OWN, OTHER])
async def test_a_transaction_in_one_read_is_carried_out_by_the_shard_of_its_topic(client, fleet, topic):
    client.tell((b"MULTI",), *[(b"PUBLISH", topic, b"%d" % number) for number in range(5)], (b"EXEC",), (b"PING",))
    replies = await client.hear(8)
    assert replies == [b"+OK\r\n", *[b"+QUEUED\r\n"] * 5, b"*5\r\n" + b"+OK\r\n" * 5, b"+PONG\r\n"]
    assert len(await payloads_in(fleet, topic)) == 5


async def test_a_transaction_over_two_shards_is_refused_with_their_topics(client, fleet):
    client.tell((b"MULTI",), (b"PUBLISH", OTHER, b"x"), (b"PUB", THIRD, b"y"), (b"PUBLISH", OTHER, b"z"), (b"EXEC",))
    *queued, refused, later, done = await client.hear(5)
    assert queued == [b"+OK\r\n", b"+QUEUED\r\n"]
    assert refused.startswith(b"-CROSSSHARD topics '%b' and '%b'" % (OTHER, THIRD))
    assert later.startswith(b"-EXECABORT")
    assert done.startswith(b"-EXECABORT")
    assert await client.ask(b"TOPICS") == b"*0\r\n"


async def test_a_transaction_that_is_discarded_or_left_leaves_nothing(connect, fleet):
    client = connect()
    client.tell((b"MULTI",), (b"PUBLISH", OTHER, b"x"), (b"DISCARD",), (b"PUBLISH", OTHER, b"y"))
    assert await client.hear(4) == [b"+OK\r\n", b"+QUEUED\r\n", b"+OK\r\n", b"+OK\r\n"]
    leaving = connect()
    leaving.tell((b"MULTI",), (b"PUBLISH", OTHER, b"z"))
    await leaving.hear(2)
    leaving.transport.lose()
    assert await payloads_in(fleet, OTHER) == [b"y"]


# --- all shards -----------------------------------------------------------------------------------------------


async def test_topics_and_statistics_are_those_of_all_shards(client, fleet):
    await fleet.publish(*TOPICS, *TOPICS)
    names = sorted(topic.encode() for topic in TOPICS)
    assert await client.ask(b"TOPICS") == b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(name), name) for name in names)
    stats = await client.ask(b"STATS")
    assert b"$6\r\ntopics\r\n:3\r\n$5\r\ndepth\r\n:6\r\n" in stats
    assert b"topics:3\r\nmessages:6\r\n" in await client.ask(b"INFO", b"topics")


async def test_clients_of_all_doors_are_listed_once(connect):
    clients = [connect(door) for door in range(COUNT)]
    for client in clients:
        assert await client.ask(b"PUB", OTHER, b"x")  # so that there are links
    lines = (await clients[0].ask(b"CLIENT", b"LIST")).split(b"\n")
    ids = [line.split()[0] for line in lines if line.startswith(b"id=")]
    assert len(ids) == len(set(ids)) == COUNT


async def test_the_list_of_clients_names_what_each_reads_in_any_shard(connect):
    reading, holding, listing = connect(), connect(), connect(2)
    await listing.ask(b"PUB", OTHER, b"x")
    reading.tell((b"CLIENT", b"SETNAME", b"reader"), (b"SUBSCRIBE", OTHER, b"GROUP", b"g"))
    await reading.hear(2)
    await holding.ask(b"GET", OTHER)
    await holding.ask(b"CLIENT", b"SETNAME", b"holder")
    lines = (await listing.ask(b"CLIENT", b"LIST")).split(b"\r\n")[1].splitlines()
    by_name = {dict(field.split(b"=") for field in line.split())[b"name"]: line for line in lines}
    assert len(lines) == 3
    assert b" sub=1 lib-name= lib-ver= topic=%b group=g member= leased=1 " % OTHER in by_name[b"reader"]
    assert by_name[b"reader"].endswith(b" flags=P")
    assert b" sub=0 lib-name= lib-ver= topic= group= member= leased=1 " in by_name[b"holder"]
    assert by_name[b"holder"].endswith(b" flags=N")


async def test_a_list_of_clients_at_its_own_door_shows_each_once(connect):
    client = connect(1)
    await client.ask(b"RECEIVE", OTHER)
    [line] = (await client.ask(b"CLIENT", b"LIST")).split(b"\r\n")[1].splitlines()
    assert b"topic=%b " % OTHER in line
    assert b"link" not in line


async def test_a_schedule_is_in_the_shard_of_its_topic(client, fleet):
    rule = (b"EVERY", b"1h")
    for name, topic in ((b"a", OWN), (b"b", OTHER), (b"c", THIRD), (b"a", OTHER)):
        assert await client.ask(b"SCHEDULE", b"SET", name, *rule, topic, b"x") == b"+OK\r\n"
    assert [member.broker.scheduler.count for member in fleet.members] == [0, 2, 1]
    listed = await client.ask(b"SCHEDULE", b"LIST", b"COUNT", b"2")
    assert [name in listed for name in (b"$1\r\na\r\n", b"$1\r\nb\r\n", b"$1\r\nc\r\n")] == [True, True, False]
    assert (await client.ask(b"SCHEDULE", b"FIRE", b"c")) == b"$3\r\n0-0\r\n"
    assert await client.ask(b"SCHEDULE", b"DELETE", b"a") == b"+OK\r\n"
    assert (await client.ask(b"SCHEDULE", b"GET", b"a")).startswith(b"-NOSCHEDULE")


@pytest.mark.parametrize("topic", [OWN, OTHER, THIRD])
async def test_a_task_is_found_at_any_door(connect, fleet, topic):
    await fleet.publish(topic.decode())
    number = (await connect(0).ask(b"PURGE", topic, b"TASK")).split(b"\r\n")[1]
    assert b"$5\r\ntopic\r\n$%d\r\n%b" % (len(topic), topic) in await connect(1).ask(b"TASK", b"GET", number)
    assert number in await connect(2).ask(b"TASK", b"LIST")


async def test_a_task_is_found_after_the_number_of_shards_has_changed(connect, fleet):
    broker = fleet.broker_with(OTHER.decode())
    await fleet.publish(OTHER.decode())
    broker.place(Placing(0, COUNT))  # its ids are those of another shard
    number = (await connect().ask(b"PURGE", OTHER, b"TASK")).split(b"\r\n")[1]
    broker.place(Placing(1, COUNT))
    assert OTHER in await connect().ask(b"TASK", b"GET", number)
    assert not (await connect(2).ask(b"TASK", b"CANCEL", number)).startswith(b"-NOTASK")
    assert (await connect().ask(b"TASK", b"GET", b"7")).startswith(b"-NOTASK")


async def test_usage_is_the_same_over_both_protocols(tmp_path):
    ann = user("ann", admin=("*",))
    async with fleet_in(tmp_path, sign_in_for(ann)) as fleet:
        for member in fleet.members:
            member.broker.set_quotas({"ann": Quotas(max_topics=100, max_bytes=1_000, max_messages_per_second=50)})
        client = DoorClient(fleet.members[0].resp)
        client.tell((b"HELLO", b"3", b"AUTH", b"ann", token_of("ann")), (b"USAGE",))
        _, usage = await client.hear(2)
        rows = (await fleet.ask("GET", "/usage", b"", (b"authorization", b"Bearer " + token_of("ann")))).json["usage"]
        client.transport.lose()
    reader = hiredis.Reader()
    reader.feed(usage)
    of_resp = reader.gets()
    assert [row[b"user"] for row in of_resp] == [None, b"ann"]
    for row, of_http in zip(of_resp, rows, strict=True):
        limits = {name: value[b"limit"] for name, value in row.items() if name not in (b"user", b"memory")}
        assert list(limits.values()) == [of_http[name]["limit"] for name in of_http if name not in ("user", "memory")]
    assert limits[b"topics"] == 100  # less than three times the share of a user, 75
    assert limits[b"partitions"] == COUNT * 75
    assert limits[b"messages_per_second"] == 50


async def test_receive_any_takes_from_all_shards_and_never_more_than_is_wanted(client, fleet):
    await fleet.publish(*TOPICS, *TOPICS)
    first = await client.ask(b"RECEIVEANY", b"COUNT", b"4", b"TOPICS", OWN, OTHER, THIRD)
    assert first.count(b"deliveries") == 4
    second = await client.ask(b"RECEIVEANY", b"COUNT", b"9", b"PATTERN", b"t*")
    assert second.count(b"deliveries") == 2
    assert await client.ask(b"RECEIVEANY", b"TOPICS", OWN, OTHER) == b"*0\r\n"
    assert (await client.ask(b"RECEIVEANY", b"COUNT", b"0", b"TOPICS", OWN, OTHER)).startswith(b"-BADPREFETCH")


async def test_receive_any_waits_for_the_first_message_of_any_shard(connect, fleet):
    waiting = connect()
    waiting.tell((b"RECEIVEANY", b"WAIT", b"30", b"TOPICS", OWN, THIRD), (b"PING",))
    await connect(1).ask(b"PUB", THIRD, b"for it")
    received, pong = await waiting.hear(2)
    assert b"for it" in received
    assert pong == b"+PONG\r\n"


async def test_events_of_all_shards_come_whole(client, connect, fleet):
    assert await client.ask(b"EVENTS", b"topic-created") == b"+OK\r\n"
    await until(lambda: all(member.broker.notices.is_heard for member in fleet.members))
    for topic in (OWN, OTHER, THIRD):
        await connect(1).ask(b"PUB", topic, b"x")
    fleet.clock.advance(1)
    for event in await client.hear(3):
        assert any(topic in event for topic in (OWN, OTHER, THIRD))
    assert await client.ask(b"RESET") == b"+RESET\r\n"


async def test_events_end_with_the_connection_when_a_shard_ends(client, fleet):
    assert await client.ask(b"EVENTS") == b"+OK\r\n"
    fleet.lose(1)
    await until(lambda: client.transport.is_closed)


# --- clients that know the nodes ------------------------------------------------------------------------------


def moved_to(topic: bytes) -> bytes:
    """Return the reply that sends a client to the node with a topic."""
    return b"-MOVED %d 127.0.0.1:%d\r\n" % (slot_of(topic), FIRST_PORT + PLACING.shard_of(topic))


async def test_the_nodes_are_the_shards_with_their_slots_and_ports(connect):
    for door in range(COUNT):
        client = connect(door)
        slots = await client.ask(b"CLUSTER", b"SLOTS")
        ranges = [PLACING.slots_of(shard) for shard in range(COUNT)]
        assert [slots.count(b":%d\r\n:%d\r\n" % (each.start, each.stop - 1)) for each in ranges] == [1] * COUNT
        assert [slots.count(b"$9\r\n127.0.0.1\r\n:%d\r\n" % (FIRST_PORT + shard)) for shard in range(COUNT)] == [
            1
        ] * COUNT
        nodes = await client.ask(b"CLUSTER", b"NODES")
        assert nodes.count(b"myself") == 1
        assert b":%d@0 myself,master - 0 0 0 connected %d-" % (FIRST_PORT + door, ranges[door].start) in nodes
        own_id = (await client.ask(b"CLUSTER", b"MYID")).split(b"\r\n")[1]
        assert b"%b 127.0.0.1:%d@0 myself" % (own_id, FIRST_PORT + door) in nodes
        assert b"cluster_known_nodes:3\r\n" in await client.ask(b"CLUSTER", b"INFO")
        assert b"$4\r\nmode\r\n$7\r\ncluster\r\n" in await client.ask(b"HELLO")


@pytest.mark.parametrize("subcommand", [b"SLOTS", b"SHARDS", b"NODES"])
async def test_a_client_that_knows_the_nodes_is_sent_to_the_one_with_the_topic(client, fleet, subcommand):
    await client.ask(b"CLUSTER", subcommand)
    client.tell(
        *[(b"PUBLISH", OTHER, b"x")] * 3,
        (b"PUB", OWN, b"x"),
        (b"RECEIVE", THIRD, b"WAIT", b"60"),
        (b"SUBSCRIBE", OTHER),
        (b"PUB", OTHER),
        (b"PING",),
    )
    other, third = moved_to(OTHER), moved_to(THIRD)
    assert await client.hear(8) == [other, other, other, b"$3\r\n0-0\r\n", third, other, other, b"+PONG\r\n"]
    assert await client.ask(b"TOPICS") == b"*1\r\n$%d\r\n%b\r\n" % (len(OWN), OWN)


async def test_a_client_that_returns_after_moved_is_sent_away_again(client):
    await client.ask(b"CLUSTER", b"SLOTS")
    assert [await client.ask(b"LEN", OTHER) for _ in range(3)] == [moved_to(OTHER)] * 3
    assert await client.ask(b"PUB", OWN, b"x") == b"$3\r\n0-0\r\n"


@pytest.mark.parametrize("words", [(b"CLUSTER", b"MYID"), (b"CLUSTER", b"KEYSLOT", b"t"), (b"CLUSTER", b"INFO")])
async def test_a_client_that_was_not_shown_the_slots_is_passed_on(client, words):
    await client.ask(*words)
    assert await client.ask(b"PUB", OTHER, b"x") == b"$3\r\n0-0\r\n"


async def test_a_client_that_resets_its_connection_is_passed_on_again(client):
    await client.ask(b"CLUSTER", b"SLOTS")
    assert await client.ask(b"LEN", OTHER) == moved_to(OTHER)
    assert await client.ask(b"RESET") == b"+RESET\r\n"
    assert await client.ask(b"PUB", OTHER, b"x") == b"$3\r\n0-0\r\n"


async def test_dead_letters_that_the_slots_place_elsewhere_are_served_by_any_node(connect, fleet):
    names = [b"n%d" % number for number in range(40)]
    elsewhere = [
        name + b".dlq" for name in names if slot_of(name + b".dlq") not in PLACING.slots_of(PLACING.shard_of(name))
    ]
    assert len(elsewhere) > 10
    for topic in elsewhere:
        client = connect()
        await client.ask(b"CLUSTER", b"SLOTS")
        assert await client.ask(b"PUB", topic, b"x") == b"$3\r\n0-0\r\n"


async def test_what_a_connection_holds_by_get_can_be_settled_after_it_is_shown_the_nodes(client):
    await client.ask(b"PUB", OTHER, b"x")
    assert await client.ask(b"GET", OTHER) == b"$1\r\nx\r\n"
    await client.ask(b"CLUSTER", b"SLOTS")
    assert await client.ask(b"ACK", OTHER) == b"+OK\r\n"
    assert await client.ask(b"LEN", THIRD) == moved_to(THIRD)


async def test_a_transaction_of_a_client_that_knows_the_nodes_is_passed_on(client, fleet):
    await client.ask(b"CLUSTER", b"SLOTS")
    client.tell((b"MULTI",), (b"PUBLISH", OTHER, b"x"), (b"EXEC",))
    assert await client.hear(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n+OK\r\n"]
    client.tell((b"MULTI",), (b"PUB", THIRD, b"x"), (b"LEN", THIRD), (b"EXEC",))
    assert (await client.hear(4))[-1] == b"*2\r\n$3\r\n0-0\r\n:1\r\n"


async def test_no_client_is_sent_to_a_shard_that_does_not_answer(client, fleet):
    await client.ask(b"CLUSTER", b"SLOTS")
    fleet.lose(1)
    assert (await client.ask(b"LEN", OTHER)).startswith(b"-TRYAGAIN")
    assert await client.ask(b"LEN", THIRD) == moved_to(THIRD)


async def test_clients_are_sent_to_the_announced_host(connect, fleet):
    shared = fleet.members[0].resp.shared
    shared.nodes = shared.nodes._replace(announced_host="queue.example")
    client = connect()
    assert (await client.ask(b"CLUSTER", b"SLOTS")).count(b"queue.example") == COUNT
    assert await client.ask(b"LEN", OTHER) == moved_to(OTHER).replace(b"127.0.0.1", b"queue.example")


@pytest.mark.parametrize("seed", range(3))
async def test_a_client_that_follows_moved_arrives_at_once_whatever_the_name(connect, seed):
    chance = random.Random(seed)
    clients = [connect(door) for door in range(COUNT)]
    for client in clients:
        await client.ask(b"CLUSTER", b"SLOTS")
    for _ in range(100):
        name = b"".join(chance.choice([b"a", b"b", b"1", b"{x}", b"{}", b"{", b"}", b".dlq", b"."]) for _ in range(6))
        reply = await clients[chance.randrange(COUNT)].ask(b"LEN", b"t" + name)
        if reply.startswith(b"-MOVED"):
            reply = await clients[int(reply.split(b":")[1]) - FIRST_PORT].ask(b"LEN", b"t" + name)
        assert reply.startswith((b":0\r\n", b"-BADTOPIC"))


# --- memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "commands",
    [
        [],
        [(b"PUBLISH", OWN, b"x"), (b"PUB", OTHER, b"x", b"KEY", b"k"), (b"RECEIVE", THIRD), (b"TOPICS",)],
        [
            (b"TOPIC", b"CREATE", b"wide", b"spread", b"3"),
            (b"PUB", b"wide", b"x"),
            (b"RECEIVE", b"wide"),
            (b"LEN", b"wide"),
        ],
        [(b"MULTI",), (b"PUBLISH", OTHER, b"x"), (b"EXEC",)],
        [(b"MULTI",), (b"PUBLISH", OTHER, b"x")],
        [(b"RECEIVEANY", b"TOPICS", OWN, OTHER)],
        [(b"EVENTS",)],
        [(b"PUBLISH", OTHER, b"x"), (b"SUBSCRIBE", OTHER)],
    ],
)
async def test_a_connection_that_has_ended_is_in_no_cycle(commands, fleet):
    with collector_off():
        client = DoorClient(fleet.members[0].resp)
        for words in commands:
            await client.ask(*words)
        client.tell((b"PUBLISH", OTHER, b"x" * 1000))
        client.connection.data_received(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nx\r\n$1000\r\nbegun")
        gone = weakref.ref(client.connection)
        client.transport.lose()
        del client
        await until(lambda: gone() is None)
