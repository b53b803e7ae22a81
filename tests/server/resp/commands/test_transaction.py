"""MULTI over RESP: publishes and settles are one commit, other commands come before it or after it."""

import pytest

from miniqueue.broker.leases.leases import Leases
from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.broker.runtime.accounts import Purpose
from miniqueue.server.resp.commands import transaction
from miniqueue.server.resp.server import RespServer
from tests.broker.support import world_with
from tests.fakes import settle_down
from tests.server.access import sign_in_for, token_of
from tests.server.resp.clients import Client, command
from tests.serving import eventually

ABORTED = b"-EXECABORT Transaction discarded because of previous errors"


async def exchange(client: Client, *commands: bytes) -> list[bytes]:
    """Send commands in one piece; return the lines of what comes back."""
    client.connection.data_received(b"".join(command(*line.split()) for line in commands))
    await settle_down()
    return client.transport.take().split(b"\r\n")[:-1]


async def in_transaction(client: Client, *commands: bytes) -> list[bytes]:
    """Send a transaction in one piece; return the lines of the reply to EXEC, when all were queued."""
    lines = await exchange(client, b"MULTI", *commands, b"EXEC")
    count = len(commands)
    assert lines[: count + 1] == [b"+OK"] + [b"+QUEUED"] * count
    return lines[count + 1 :]


async def receipt_of(client: Client, topic: bytes = b"t") -> bytes:
    return (await client.say(b"RECEIVE %b" % topic)).split(b"\r\n")[3]


# --- the atomic part ------------------------------------------------------------------------------------------


async def test_all_ways_to_publish_and_settle(world, client):
    await world.publish(b"t", b"in", b"other")
    first, second = await receipt_of(client), await receipt_of(client)
    writes_before = len(world.store.batches)
    lines = await in_transaction(
        client,
        b"PUBLISH a 1",
        b"PUBLISH a 2",
        b"ACK t %b" % first,
        b"PUB a 3 KEY k",
        b"PUB a 4 DEDUP id",
        b"MPUBLISH a 5",
        b"MPUBLISH a 6 7",
        b"PUBBATCH b id 8 9",
        b"PUBEACH b id2 10 2 KEY k",
        b"NACK t %b" % second,
    )
    assert lines == [
        *(b"*10", b"+OK", b"+OK", b"+OK"),
        *(b"$3", b"0-2"),
        *(b"*2", b"$3", b"0-3", b":0"),
        *(b"*1", b"$3", b"0-4"),
        *(b"*2", b"$3", b"0-5", b"$3", b"0-6"),
        *(b"*2", b"*2", b"$3", b"0-0", b"$3", b"0-1", b":0"),
        *(b"*2", b"*1", b"$3", b"0-2", b":0"),
        b"+OK",
    ]
    assert len(world.store.batches) == writes_before + 1
    assert await world.drain(b"a") == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert await world.drain(b"b") == [b"8", b"9", b"10"]
    assert await world.drain(b"t") == [b"other"]


@pytest.mark.parametrize(
    "settle",
    [
        *(b"ACK t %b", b"ACK t %b SYNC", b"NACK t %b DELAY 5 REASON bad", b"BACK t %b SYNC", b"DACK t %b SYNC 5"),
        *(b"REJECT t %b bad", b"EXTEND t %b 5"),
    ],
)
async def test_settles_are_answered_as_alone(settle, world, client):
    await world.publish(b"t", b"in")
    receipt = await receipt_of(client)
    assert await in_transaction(client, settle % receipt) == [b"*1", b"+OK"]
    assert (world.broker.stats()[b"t"].leased == 1) == settle.startswith(b"EXTEND")


async def test_several_receipts_have_one_reply(world, client):
    await world.publish(b"t", b"1", b"2")
    receipts = await receipt_of(client), await receipt_of(client)
    assert await in_transaction(client, b"ACK t %b %b" % receipts) == [b"*1", b"*2", b"+OK", b"+OK"]


async def test_nothing_is_answered_before_the_commit_and_later_replies_come_after_it(world, client):
    world.store.may_write.clear()
    lines = await exchange(client, b"MULTI", b"PUBLISH t a", b"EXEC", b"PUBLISH t b", b"PING")
    assert lines == [b"+OK", b"+QUEUED"]
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == b"*1\r\n+OK\r\n+OK\r\n+PONG\r\n"
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_a_transaction_may_arrive_in_any_pieces(world, client):
    sent = b"".join(command(*line.split()) for line in (b"MULTI", b"PUBLISH t a", b"PUBLISH t b", b"EXEC", b"PING"))
    for byte in sent:
        client.connection.data_received(bytes([byte]))
    await settle_down()
    assert client.transport.take().split(b"\r\n")[:-1] == [
        *(b"+OK", b"+QUEUED", b"+QUEUED"),
        *(b"*2", b"+OK", b"+OK", b"+PONG"),
    ]
    assert await world.drain(b"t") == [b"a", b"b"]


async def test_unique_keys_are_looked_up(world, client):
    assert await in_transaction(client, b"PUB t a UNIQUE k", b"PUB t b") == [
        *(b"*2", b"*2", b"$3", b"0-0", b":0", b"$3", b"0-1")
    ]
    await world.restart()
    client = Client(RespServer(world.broker, {}))
    assert await in_transaction(client, b"PUB t c UNIQUE k", b"PUB t d") == [
        *(b"*2", b"*2", b"$3", b"0-0", b":1", b"$3", b"0-2")
    ]


async def test_the_message_that_does_not_fit_a_schema_is_named(client):
    await client.say(b'TOPIC CREATE t schema {"type":"object"}')
    end = b'/: the value is not of type "object"; nothing of the transaction was done'
    for commands, place in (
        ([b"PUBLISH t {}", b"PUBLISH t 5"], b"command 2 of 2: "),
        ([b"PUBLISH t {}", b"PUB t 5 KEY k"], b"command 2 of 2: "),
        ([b"MPUBLISH t {} 5", b"PUBLISH t {}"], b"command 1 of 2: message 2 of 2: "),
        ([b"PUBBATCH t id {} {} 5"], b"command 1 of 1: message 3 of 3: "),
    ):
        assert await in_transaction(client, *commands) == [b"-SCHEMA " + place + end]


async def test_an_empty_transaction(client):
    assert await in_transaction(client) == [b"*0"]


@pytest.mark.parametrize(
    ("commands", "error"),
    [
        ([b"PUBLISH a 1", b"ACK t none-1"], b"-NOLEASE command 2 of 2: the receipt belongs to no message"),
        ([b"PUBLISH a 1", b"PUBLISH full 1", b"PUBLISH full 2"], b"-LIMIT command 3 of 3: the topic holds as many"),
        ([b"LEN t", b"MPUBLISH full 1 2", b"PUBLISH a 1"], b"-LIMIT command 2 of 3: the topic holds as many"),
        ([b"PUB a 1 DEDUP i", b"PUB a 2 DEDUP i"], b"-ERR command 2 of 2: a transaction has two messages with"),
        ([b"PUBLISH a 1", b"LEN a", b"PUBLISH closed 1", b"LEN a"], b"-PAUSED command 3 of 4: "),
    ],
)
async def test_what_is_impossible_at_exec_is_named_and_nothing_is_done(commands, error, world, client):
    await client.say(b"TOPIC CREATE full max_messages 1")
    await client.say(b"TOPIC CREATE closed")
    await client.say(b"PAUSE closed IN")
    [line] = await in_transaction(client, *commands)
    assert line.startswith(error)
    assert line.endswith(b"; nothing of the transaction was done")
    assert world.broker.topics() == [b"closed", b"full"]
    assert await in_transaction(client, b"PUBLISH full 1") == [b"*1", b"+OK"]


async def test_a_commit_that_fails_is_unknown(world, client):
    world.store.fail_writes = {world.store.write_count + 1, world.store.write_count + 2}
    assert (await in_transaction(client, b"PUBLISH a 1"))[0].startswith(b"-UNKNOWN ")
    lines = await in_transaction(client, b"PUBLISH a 1", b"LEN a", b"PING")
    assert [line.split()[0] for line in lines] == [b"-UNKNOWN"]
    assert await client.say(b"PING") == b"+PONG\r\n"


async def test_exec_while_the_store_is_reopened(world, client):
    world.broker._engine.journal.admission.shut(world.store.write_fault("broken"))
    assert (await in_transaction(client, b"PUBLISH a 1"))[0].startswith(b"-READONLY ")
    assert (await in_transaction(client, b"LEN a", b"PUBLISH a 1"))[0].startswith(b"-READONLY ")


async def test_a_bug_in_an_act_is_an_error_and_leaves_nothing(world, client, monkeypatch):
    await world.publish(b"t", b"in")
    receipt = await receipt_of(client)
    monkeypatch.setattr(Leases, "ack", fail)
    for more in ([], [b"LEN a"]):
        [line] = await in_transaction(client, b"PUBLISH a 1", b"ACK t %b" % receipt, *more)
        assert line.startswith((b"-ERR a bug in miniqueue ended the transaction", b"-NOLEASE command 2 of 3"))
        await settle_down()
    assert world.broker.topics() == [b"t"]
    assert await client.say(b"PUBLISH a 2") == b"+OK\r\n"


def fail(*_: object) -> None:
    raise ZeroDivisionError


# --- other commands -------------------------------------------------------------------------------------------


async def test_other_commands_are_done_before_the_atomic_part_or_after_it(world, client):
    await world.publish(b"t", b"in")
    receipt = await receipt_of(client)
    lines = await in_transaction(
        client, b"LEN t", b"LEN a", b"PUBLISH a 1", b"LEN t", b"LEN a", b"ACK t %b" % receipt, b"PING", b"LEN nowhere"
    )
    assert lines[:8] == [b"*8", b":1", b":0", b"+OK", b":0", b":1", b"+OK", b"+PONG"]
    assert lines[8] == b":0"


async def test_only_other_commands(world, client):
    await world.publish(b"t", b"in")
    assert await in_transaction(client, b"PING", b"LEN t", b"TOPICS", b"PEEK nowhere") == [
        *(b"*4", b"+PONG", b":1", b"*1", b"$1", b"t"),
        *(await exchange(client, b"PEEK nowhere")),
    ]


async def test_a_command_that_fails_has_its_error_in_its_place(world, client):
    lines = await in_transaction(client, b"PUBLISH a 1", b"TOPIC SET a max_messages no", b"PUBLISH a 2", b"LEN a")
    assert lines[:2] + lines[3:] == [b"*4", b"+OK", b"+OK", b":2"]
    assert lines[2].startswith(b"-BADSETTING ")


async def test_a_receive_does_not_wait_and_its_leases_are_its_own(world, client):
    await world.publish(b"t", b"1", b"2")
    lines = await in_transaction(client, b"RECEIVE t", b"PUBLISH a x", b"RECEIVE t WAIT 60", b"RECEIVE t WAIT 60")
    assert lines.count(b"*3") == 2
    assert lines[-1] == b"*0"
    assert world.broker.stats()[b"t"].leased == 2


async def test_messages_that_were_received_before_a_part_that_fails_are_returned(world, client):
    await world.publish(b"t", b"1")
    [line] = await in_transaction(client, b"RECEIVE t", b"LEN t", b"ACK t none-1", b"RECEIVE t", b"LEN t")
    assert line.startswith(b"-NOLEASE command 3 of 5")
    assert world.broker.stats()[b"t"].leased == 0
    assert await exchange(client, b"LEN t", b"PING") == [b":1", b"+PONG"]


async def test_commands_after_a_transaction_follow_its_last_reply(world, client):
    lines = await exchange(client, b"MULTI", b"PUBLISH a 1", b"LEN a", b"EXEC", b"LEN a", b"PUBLISH a 2", b"PING")
    assert lines == [b"+OK", b"+QUEUED", b"+QUEUED", b"*2", b"+OK", b":1", b":1", b"+OK", b"+PONG"]


async def test_transactions_one_after_the_other(world, client):
    one = [b"MULTI", b"LEN a", b"PUBLISH a 1", b"PUBLISH a 1", b"EXEC"]
    lines = await exchange(client, *one, *one, *one)
    queued = [b"+OK", *[b"+QUEUED"] * 3]
    assert lines == [line for count in (0, 2, 4) for line in (*queued, b"*3", b":%d" % count, b"+OK", b"+OK")]


async def test_long_replies_before_the_atomic_part_end_the_transaction(world, client, monkeypatch):
    monkeypatch.setattr(transaction, "MAX_WITHHELD_BYTES", 100)
    await world.publish(b"t", b"x" * 200)
    [line] = await in_transaction(client, b"RECEIVE t", b"PING", b"PUBLISH a 1")
    assert line == b"-LIMIT the replies before the first publish or settle exceed 100 bytes"
    assert world.broker.stats()[b"t"].leased == 0
    assert await exchange(client, b"LEN a", b"PING") == [b":0", b"+PONG"]


async def test_long_replies_after_the_atomic_part_wait_for_the_client_to_read(world, client):
    await world.publish(b"t", b"x" * 500_000)
    client.connection.data_received(
        b"".join(command(*line.split()) for line in (b"MULTI", b"PUBLISH a 1", *[b"PEEK t"] * 8, b"EXEC", b"PING"))
    )
    client.connection.pause_writing()
    await settle_down()
    before = len(client.transport.take())
    assert before < 2_000_000
    while not client.transport.is_reading():
        client.connection.resume_writing()
        await settle_down()
    assert before + len(client.transport.take()) > 4_000_000


# --- commands that are refused when they are queued ------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"NOSUCH",
        b"PUBLISH t",
        b"PUB t x DELAY no",
        b"PUBLISH no:topic/ x",
        b"RECEIVE t COUNT no",
        b"DACK t r no",
        b"ACK t",
        b"GET t",
        b"SUBSCRIBE t",
        b"SUB t",
        b"PSUBSCRIBE *",
        b"UNSUBSCRIBE",
        b"REQUEST t x",
        b"REPLY t r x",
        b"AUTH a b",
        b"HELLO 3",
        b"MULTI",
        b"WATCH t",
        b"EXEC x",
    ],
)
async def test_a_command_that_is_refused_ends_the_transaction(line, world, client):
    lines = await exchange(client, b"MULTI", b"PUBLISH a 1", line, b"EXEC", b"PUBLISH b 1")
    assert lines[:2] == [b"+OK", b"+QUEUED"]
    assert lines[2].startswith(b"-")
    assert lines[3:] == [ABORTED, b"+OK"]
    assert world.broker.topics() == [b"b"]


async def test_nested_multi_has_the_text_of_redis(client):
    assert (await exchange(client, b"MULTI", b"MULTI"))[1] == b"-ERR MULTI calls can not be nested"


@world_with(max_message_bytes=10)
async def test_messages_that_are_too_large_are_refused_when_they_are_queued(world, client):
    large = b"PUBLISH t " + b"x" * 11
    lines = await exchange(client, b"MULTI", b"PUBLISH t a", large, b"PUBLISH t b", b"EXEC")
    assert [line[:8] for line in lines[:3]] == [b"+OK", b"+QUEUED", b"-TOOBIG "]
    assert lines[-1] == ABORTED


@world_with(limits=BrokerLimits(max_transaction_bytes=20_000))
async def test_the_size_of_a_transaction_is_bounded_and_charged(world, client):
    account = client.connection.account
    lines = await exchange(client, b"MULTI", b"PUBLISH t a", b"PUB t %b" % (b"x" * 4_000))
    assert lines == [b"+OK", b"+QUEUED", b"+QUEUED"]
    assert 4_000 < account.amounts()[Purpose.TRANSACTIONS] < 6_000
    lines = await exchange(client, *[b"PUBLISH t %b" % (b"x" * 4_000)] * 5, b"EXEC")
    assert sum(line.startswith(b"-LIMIT the commands of the transaction need") for line in lines) == 1
    assert lines[-1] == ABORTED
    assert Purpose.TRANSACTIONS not in account.amounts()
    assert world.broker.limit_counts.counts["max-transaction-bytes"] == 1
    assert world.broker.topics() == []


async def test_the_number_of_commands_is_bounded(world, client, monkeypatch):
    monkeypatch.setattr(transaction, "MAX_COMMANDS", 3)
    lines = await exchange(client, b"MULTI", *[b"PUBLISH t a"] * 4, b"EXEC")
    assert lines[1:] == [*[b"+QUEUED"] * 3, b"-LIMIT a transaction has at most 3 commands", ABORTED]


async def test_memory_is_checked_for_each_command(world, client):
    await exchange(client, b"MULTI")
    client.connection.account.set_limit(1, "-max-memory")
    assert (await exchange(client, b"PUBLISH t a"))[0].startswith(b"-LIMIT ")
    client.connection.account.set_limit(1 << 30, "-max-memory")
    assert await exchange(client, b"EXEC") == [ABORTED]


# --- what else ends a transaction ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("leave", "reply"), [(b"DISCARD", b"+OK"), (b"RESET", b"+RESET")])
async def test_what_leaves_a_transaction_does_nothing(leave, reply, world, client):
    lines = await exchange(client, b"MULTI", b"PUBLISH t a", leave, b"PUBLISH t b")
    assert lines == [b"+OK", b"+QUEUED", reply, b"+OK"]
    assert await world.drain(b"t") == [b"b"]
    assert Purpose.TRANSACTIONS not in client.connection.account.amounts()


@pytest.mark.parametrize("end", ["connection_lost", "eof_received"])
async def test_a_connection_that_ends_before_exec_leaves_nothing(end, world, server, client):
    await exchange(client, b"MULTI", b"PUBLISH t a")
    getattr(client.connection, end)(*([None] if end == "connection_lost" else []))
    await settle_down()
    assert world.broker.topics() == []
    assert world.broker.memory.amounts().get(Purpose.TRANSACTIONS) is None
    assert await Client(server).say(b"PUBLISH t a") == b"+OK\r\n"


CLOSED = b"-DRAINING the broker closes the connection; "


async def test_a_stop_after_the_commit_answers_each_command(world, server, client):
    world.store.may_write.clear()
    commands = [b"LEN t", b"PUBLISH t a", b"LEN t", b"PUBLISH t b", b"LEN t"]
    await exchange(client, b"MULTI", *commands, b"EXEC", b"PING")
    server.drain()
    assert not client.transport.is_lost
    world.store.may_write.set()
    await settle_down()
    not_done = CLOSED + b"this command was not carried out"
    assert client.transport.take().split(b"\r\n")[:-1] == [b"*5", b":0", b"+OK", not_done, b"+OK", not_done]
    assert client.transport.is_lost
    assert await world.drain(b"t") == [b"a", b"b"]


def cut_off(server: RespServer) -> None:
    for connection in server.all_connections():
        connection.leave()
        connection.close_when_sent()


@pytest.mark.parametrize("end", [RespServer.drain, cut_off], ids=["a stop", "a user that was changed"])
async def test_a_connection_that_closes_before_the_commit_does_nothing(end, world, server, client):
    world.store.may_write.clear()
    await exchange(client, b"PUBLISH t a", b"MULTI", b"LEN t", b"PUBLISH t b", b"LEN t", b"EXEC")
    end(server)
    assert not client.transport.is_lost
    world.store.may_write.set()
    await settle_down()
    queued = b"+OK\r\n" + b"+QUEUED\r\n" * 3
    assert client.transport.take() == b"+OK\r\n" + queued + CLOSED + b"nothing of the transaction was done\r\n"
    assert client.transport.is_lost
    assert await world.drain(b"t") == [b"a"]


async def test_a_stop_before_the_first_command_does_nothing(world, server, client):
    lines = (b"MULTI", b"LEN t", b"PUBLISH t a", b"EXEC")
    client.connection.data_received(b"".join(command(*line.split()) for line in lines))
    server.drain()
    await settle_down()
    assert client.transport.take().endswith(CLOSED + b"nothing of the transaction was done\r\n")
    assert client.transport.is_lost
    assert await world.drain(b"t") == []


async def test_quit_in_a_transaction_closes(world, client):
    assert await exchange(client, b"MULTI", b"PUBLISH t a", b"QUIT") == [b"+OK", b"+QUEUED", b"+OK"]
    assert client.transport.is_closed
    assert world.broker.topics() == []


async def test_a_client_that_goes_after_exec_has_published(world, client):
    world.store.may_write.clear()
    await exchange(client, b"MULTI", b"LEN t", b"PUBLISH t a", b"LEN t", b"EXEC")
    client.connection.connection_lost(None)
    world.store.may_write.set()
    await settle_down()
    assert await world.drain(b"t") == [b"a"]


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"EXEC", b"-ERR EXEC without MULTI\r\n"),
        (b"discard", b"-ERR DISCARD without MULTI\r\n"),
        (b"MULTI x", b"-ERR invalid number of args, want: 1; syntax: "),
        (b"WATCH t", b"-ERR WATCH is not supported"),
        (b"UNWATCH", b"+OK\r\n"),
    ],
)
async def test_reply_outside_of_a_transaction(line, reply, client):
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"PUBLISH t a") == b"+OK\r\n"


async def test_a_transaction_in_a_stream_settles_nothing_and_the_stream_goes_on(world, client):
    await world.publish(b"t", b"a", b"b")
    await client.say(b"SUBSCRIBE t")
    refused = b"-ERR a stream has no transactions; use another connection"
    lines = await exchange(client, b"MULTI", b"ACK", b"EXEC", b"NACK")
    assert lines == [b"+OK", refused, ABORTED, b"+OK", b"$1", b"a"]
    lines = await exchange(client, b"MULTI", b"PUBLISH t c", b"PUBLISH t d", b"RESET", b"LEN t")
    assert lines == [b"+OK", refused, refused, b"+RESET", b":2"]


async def test_an_inline_multi_ends_the_connection_before_what_follows(world, client):
    client.connection.data_received(b"MULTI\r\nPUB t a\r\nEXEC\r\n")
    await settle_down()
    assert client.transport.take().startswith(b"-ERR Protocol error: only ")
    assert client.transport.is_closed
    assert world.broker.topics() == []


@world_with(limits=BrokerLimits(max_uncommitted_bytes=10))
@pytest.mark.parametrize("more", [[], [b"LEN a"]])
async def test_exec_waits_for_room_as_a_publish_does(more, world, client):
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"x" * 20])
    assert await exchange(client, b"MULTI", b"PUBLISH a 1", *more, b"EXEC", b"PING") == [
        b"+OK",
        *[b"+QUEUED"] * (1 + len(more)),
    ]
    world.store.may_write.set()
    await settle_down()
    assert client.transport.take() == b"*%d\r\n+OK\r\n%b+PONG\r\n" % (1 + len(more), b":1\r\n" * len(more))


# --- users ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("client")
async def test_a_client_that_authenticates_in_a_transaction_publishes_nothing(world):
    client = Client(RespServer(world.broker, {}, sign_in_for()))
    auth = b"AUTH %b" % token_of("publisher-of-all")
    lines = await exchange(client, b"MULTI", auth, b"PUBLISH t a", b"EXEC", b"PUBLISH t b")
    assert lines[0] == b"+OK"
    assert lines[1].startswith(b"-ERR a command that changes the connection cannot be in a transaction")
    assert [line.split()[0] for line in lines[2:]] == [b"-NOAUTH", b"-EXECABORT", b"-NOAUTH"]
    assert world.broker.topics() == []


async def test_a_missing_right_in_the_middle_ends_the_transaction(world):
    client = Client(RespServer(world.broker, {}, sign_in_for()))
    client.send(b"AUTH", token_of("publisher-of-all"))
    await eventually(lambda: client.transport.take() == b"+OK\r\n")
    lines = await exchange(client, b"MULTI", b"PUBLISH a 1", b"PUBLISH a 2", b"ACK t r-1", b"PUBLISH a 3", b"EXEC")
    assert lines[:3] == [b"+OK", b"+QUEUED", b"+QUEUED"]
    assert lines[3].startswith(b"-NOPERM ")
    assert lines[-1] == ABORTED
    assert world.broker.topics() == []
    assert await in_transaction(client, b"PUBLISH a 1", b"PUBLISH b 1") == [b"*2", b"+OK", b"+OK"]
