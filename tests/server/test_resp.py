"""RESP connections: every command, replies in order round a pending commit, streams, back-pressure and closing."""

import asyncio

import pytest

from miniqueue.errors import StorageError
from miniqueue.server import resp_output
from miniqueue.server.resp_commands import COMMANDS
from miniqueue.server.resp_server import RespServer
from tests.broker.support import run
from tests.fakes import FakeTransport, settle_down

PARAMETERS = {"port": "6379", "period": "1s", "db": "./x"}

PING_DESCRIBED = b"*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n$4\r\nfast\r\n" + b":0\r\n" * 3 + b"*0\r\n" * 4


class Client:
    """A connection with a fake transport."""

    def __init__(self, server: RespServer) -> None:
        self.connection = server()
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)

    def send(self, *words: bytes) -> None:
        """Send one command, without running anything else."""
        self.connection.data_received(command(*words))

    async def say(self, line: bytes) -> bytes:
        """Send words; return what comes back."""
        self.send(*line.split())
        await settle_down()
        return self.transport.take()


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def serve(body, **options):
    """Run `body(world, server, client)`."""

    async def with_server(world):
        server = RespServer(world.broker, PARAMETERS)
        await body(world, server, Client(server))

    return run(with_server, **options)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PING", b"+PONG\r\n"),
        (b"ping hello", b"$5\r\nhello\r\n"),
        (b"PING a b", b"-ERR invalid number of args, want: 1\r\n"),
        (b"ECHO x", b"$1\r\nx\r\n"),
        (b"ECHO", b"-ERR invalid number of args, want: 2\r\n"),
        (b"PUBLISH t x", b"+OK\r\n"),
        (b"Publish t x", b"+OK\r\n"),
        (b"PUBLISH t", b"-ERR invalid number of args, want: 3\r\n"),
        (b"PUBLISH a/b x", b"-BADTOPIC "),
        (b"SUBSCRIBE", b"-ERR invalid number of args, want: 2\r\n"),
        (b"SUBSCRIBE a/b", b"-BADTOPIC "),
        (b"ACK", b"-NOLEASE No message is outstanding\r\n"),
        (b"NACK", b"-NOLEASE "),
        (b"BACK", b"-NOLEASE "),
        (b"DACK", b"-NOLEASE "),
        (b"DACK 1", b"-NOLEASE "),
        (b"ACK x", b"-ERR invalid number of args, want: at least 3\r\n"),
        (b"DACK x y", b"-ERR invalid number of args, want: at least 4\r\n"),
        (b"ACK t 1-1", b"-NOLEASE the receipt belongs to no message that is leased now\r\n"),
        (b"EXTEND t 1-1 1", b"-NOLEASE "),
        (b"EXTEND t 1-1 0", b"-BADDELAY a lease is "),
        (b"REJECT t 1-1 broken", b"-NOLEASE "),
        (b"RECEIVE t", b"*0\r\n"),
        (b"RECEIVE a/b", b"-BADTOPIC "),
        (b"RECEIVE t group default count 5 wait 0 lease 5 autoack", b"*0\r\n"),
        (b"RECEIVE t GROUP other", b"-ERR there is no such group; there is only the group default\r\n"),
        (b"RECEIVE t COUNT 0", b"-BADPREFETCH "),
        (b"RECEIVE t COUNT 10001", b"-BADPREFETCH "),
        (b"RECEIVE t WAIT -1", b"-BADDELAY a wait is "),
        (b"RECEIVE t WAIT 60.1", b"-BADDELAY a wait is "),
        (b"RECEIVE t LEASE x", b"-BADDELAY a lease is "),
        (b"RECEIVE t LEASE", b"-ERR syntax error in RECEIVE option 'LEASE'\r\n"),
        (b"RECEIVE t WHAT 1", b"-ERR syntax error in RECEIVE option 'WHAT'\r\n"),
        (b"TOPICS", b"*0\r\n"),
        (b"TOPICS x", b"-ERR invalid number of args, want: 1\r\n"),
        (b"TOPIC DELETE t", b"+OK\r\n"),
        (b"TOPIC DELETE", b"-ERR invalid number of args, want: 3\r\n"),
        (b"TOPIC", b"-ERR invalid number of args, want: at least 2\r\n"),
        (b"TOPIC DELETE a/b", b"-BADTOPIC "),
        (b"TOPIC CREATE t", b"+OK\r\n"),
        (b"TOPIC CREATE t lease_seconds 60 RETRY_DELAYS 1", b"-BADSETTING RETRY_DELAYS is no setting; there are "),
        (b"TOPIC CREATE t lease_seconds", b"-BADSETTING lease_seconds must be followed by a value\r\n"),
        (b"TOPIC CREATE t max_deliveries many", b"-BADSETTING max_deliveries must be a whole number from 0, no limit,"),
        (b"TOPIC CREATE a/b", b"-BADTOPIC "),
        (b"TOPIC SET t max_deliveries 5", b"-NOTOPIC There is no such topic\r\n"),
        (b"TOPIC SET t", b"-ERR invalid number of args, want: at least 5\r\n"),
        (b"TOPIC GET t", b"-NOTOPIC "),
        (b"TOPIC GET t x", b"-ERR invalid number of args, want: 3\r\n"),
        (b"TOPIC WHAT t", b"-ERR unknown subcommand or wrong number of arguments for TOPIC 'WHAT'\r\n"),
        (b"INFO", b"$"),
        (b"INFO server", b"$"),
        (b"HELLO 4", b"-NOPROTO "),
        (b"HELLO x", b"-NOPROTO "),
        (b"HELLO 3 WHAT", b"-ERR syntax error in HELLO option 'WHAT'\r\n"),
        (b"HELLO 3 AUTH someone x", b"-WRONGPASS "),
        (b"AUTH default x", b"+OK\r\n"),
        (b"AUTH someone x", b"-WRONGPASS "),
        (b"AUTH x", b"-ERR AUTH called without any password configured"),
        (b"AUTH", b"-ERR invalid number of args, want: at least 2\r\n"),
        (b"AUTH a b c", b"-ERR invalid number of args, want: 3\r\n"),
        (b"SELECT 0", b"+OK\r\n"),
        (b"SELECT 1", b"-ERR DB index is out of range\r\n"),
        (b"CLIENT ID", b":1\r\n"),
        (b"CLIENT GETNAME", b"$-1\r\n"),
        (b"CLIENT SETNAME me", b"+OK\r\n"),
        (b"CLIENT SETINFO lib-name x", b"+OK\r\n"),
        (b"CLIENT SETINFO LIB-VER 1", b"+OK\r\n"),
        (b"CLIENT SETINFO what 1", b"-ERR unrecognized option 'what'\r\n"),
        (b"CLIENT NO-EVICT on", b"+OK\r\n"),
        (b"CLIENT NO-TOUCH on", b"+OK\r\n"),
        (b"CLIENT LIST", b"$"),
        (b"CLIENT KILL x", b"-ERR unknown subcommand or wrong number of arguments for CLIENT 'KILL'\r\n"),
        (b"CONFIG GET p*", b"*4\r\n$4\r\nport\r\n$4\r\n6379\r\n$6\r\nperiod\r\n$2\r\n1s\r\n"),
        (b"CONFIG GET none", b"*0\r\n"),
        (b"CONFIG GET *or* PERIOD", b"*4\r\n$4\r\nport\r\n$4\r\n6379\r\n$6\r\nperiod\r\n$2\r\n1s\r\n"),
        (b"CONFIG GET p*o*o*t port*t *x* po", b"*0\r\n"),
        (b"CONFIG GET *p*d*", b"*2\r\n$6\r\nperiod\r\n$2\r\n1s\r\n"),
        (b"CONFIG GET", b"-ERR unknown subcommand"),
        (b"CONFIG SET a b", b"-ERR unknown subcommand"),
        (b"COMMAND COUNT", b":%d\r\n" % len(COMMANDS)),
        (b"COMMAND INFO ping what", b"*2\r\n" + PING_DESCRIBED + b"$-1\r\n"),
        (b"COMMAND DOCS ack what", b"*2\r\n$3\r\nack\r\n*4\r\n$7\r\nsummary\r\n"),
        (b"COMMAND GETKEYS x", b"-ERR unknown subcommand"),
        (b"RESET", b"+RESET\r\n"),
        (b"WHAT x", b"-ERR unknown command 'WHAT'\r\n"),
        (b"W\x1b[31m", b"-ERR unknown command 'W?[31m'\r\n"),
    ],
)  # fmt: skip
def test_reply_of(line, reply):
    async def body(world, server, client):
        assert (await client.say(line))[: len(reply)] == reply
        assert not client.transport.is_closed
        assert await client.say(b"PING") == (b"+PONG\r\n" if line != b"SUBSCRIBE t" else b"")

    serve(body)


@pytest.mark.parametrize("character", [b"[", b"*", b"?"])
def test_a_long_pattern_costs_no_time(character):
    async def body(world, server, client):
        assert await client.say(b"CONFIG GET " + character * 60_000) == b"*0\r\n"

    serve(body)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_checks_its_number_of_words(name):
    async def body(world, server, client):
        arity = COMMANDS[name].arity
        counts = [arity - 1, arity + 1] if arity > 0 else range(1, -arity)
        for count in filter(None, counts):
            wanted = COMMANDS[name].plain_arity or (arity if arity > 0 else f"at least {-arity}")
            expected = f"-ERR invalid number of args, want: {wanted}\r\n".encode()
            assert await client.say(b" ".join([name, *[b"x"] * (count - 1)])) == expected

    serve(body)


def test_commands_describe_every_command():
    async def body(world, server, client):
        assert (await client.say(b"COMMAND")).startswith(b"*%d\r\n" % len(COMMANDS))
        assert all(entry.summary for entry in COMMANDS.values())

    serve(body)


def test_version_3_has_maps_and_nulls_of_its_own():
    async def body(world, server, client):
        assert (await client.say(b"HELLO")).startswith(b"*14\r\n$6\r\nserver\r\n$9\r\nminiqueue\r\n")
        hello = await client.say(b"HELLO 3 AUTH default x SETNAME me")
        assert hello.startswith(b"%7\r\n$6\r\nserver\r\n")
        assert b"$5\r\nproto\r\n:3\r\n" in hello
        assert await client.say(b"CLIENT GETNAME") == b"$2\r\nme\r\n"
        assert await client.say(b"CONFIG GET port") == b"%1\r\n$4\r\nport\r\n$4\r\n6379\r\n"
        assert await client.say(b"COMMAND INFO what") == b"*1\r\n_\r\n"
        assert (await client.say(b"COMMAND DOCS ack")).startswith(b"%1\r\n$3\r\nack\r\n%2\r\n")
        assert await client.say(b"RESET") == b"+RESET\r\n"
        assert await client.say(b"CLIENT GETNAME") == b"$-1\r\n"

    serve(body)


def test_client_list_shows_every_connection():
    async def body(world, server, client):
        other = Client(server)
        await other.say(b"SUBSCRIBE t")
        await client.say(b"CLIENT SETNAME me")
        listed = await client.say(b"CLIENT LIST")
        assert b"id=1 addr=127.0.0.1:50000 name=me user=default db=0 resp=2 sub=0" in listed
        assert b"id=2 addr=127.0.0.1:50000 name= user=default db=0 resp=2 sub=1 lib-name= lib-ver= topic=t\n" in listed

    serve(body)


@pytest.mark.parametrize("name", [b"a b", b"a\nb", b"\xff", b"x" * 256])
def test_a_client_name_is_one_printable_word(name):
    async def body(world, server, client):
        client.send(b"CLIENT", b"SETNAME", name)
        assert client.transport.take().startswith(b"-ERR client names cannot contain")

    serve(body)


def test_info_counts():
    async def body(world, server, client):
        await world.publish(b"t", b"a", b"b")
        info = await client.say(b"INFO")
        for line in (b"connected_clients:1", b"topics:1", b"messages:2", b"refusal:\r\n", b"tcp_port:6379"):
            assert line in info

    serve(body)


# --- publishing -------------------------------------------------------------------------------------------------


def test_a_run_of_publishes_is_one_commit_and_as_many_replies():
    async def body(world, server, client):
        client.connection.data_received(b"".join(command(b"PUBLISH", b"t", b"%d" % n) for n in range(100)))
        await settle_down()
        assert client.transport.take() == b"+OK\r\n" * 100
        assert world.store.write_count == 1
        assert await world.drain(b"t") == [b"%d" % n for n in range(100)]

    serve(body)


def test_replies_keep_the_order_of_their_commands_round_a_commit():
    async def body(world, server, client):
        world.store.may_write.clear()
        lines = [b"ECHO 1", b"PUBLISH t a", b"PUBLISH u b", b"ECHO 2", b"PUBLISH a/b c", b"TOPIC DELETE t", b"ECHO 3"]
        client.connection.data_received(b"".join(command(*line.split()) for line in lines))
        await settle_down()
        assert client.transport.take() == b"$1\r\n1\r\n"
        world.store.may_write.set()
        await settle_down()
        start, end = b"+OK\r\n+OK\r\n$1\r\n2\r\n-BADTOPIC ", b"\r\n+OK\r\n$1\r\n3\r\n"
        replies = client.transport.take()
        assert (replies.startswith(start), replies.endswith(end)) == (True, True)
        assert world.broker.topics() == [b"u"]

    serve(body)


def test_a_delete_takes_effect_before_the_commands_after_it():
    async def body(world, server, client):
        await world.publish(b"t", b"old")
        lines = [b"TOPIC DELETE t", b"TOPICS", b"PUBLISH t new"]
        client.connection.data_received(b"".join(command(*line.split()) for line in lines))
        await settle_down()
        assert client.transport.take() == b"+OK\r\n*0\r\n+OK\r\n"
        assert await world.drain(b"t") == [b"new"]

    serve(body)


def test_a_failed_commit_is_an_error_for_each_of_its_publishes():
    async def body(world, server, client):
        world.store.fail_writes = {1}
        client.connection.data_received(command(b"PUBLISH", b"t", b"x") * 3)
        await settle_down()
        replies = client.transport.take().splitlines()
        assert [reply[:9] for reply in replies] == [b"-UNKNOWN "] * 3
        assert await client.say(b"PUBLISH t x") == b"+OK\r\n"

    serve(body)


def test_a_message_that_is_too_large_is_refused_alone():
    async def body(world, server, client):
        payloads = [b"1", b"much too large", b"2"]
        client.connection.data_received(b"".join(command(b"PUBLISH", b"t", payload) for payload in payloads))
        await settle_down()
        first, second, third = client.transport.take().splitlines()
        assert (first, third) == (b"+OK", b"+OK")
        assert second.startswith(b"-TOOBIG message of 14 bytes is over the limit of 10")
        assert await world.drain(b"t") == [b"1", b"2"]

    serve(body, max_message_bytes=10)


def test_a_lowered_limit_refuses_only_what_is_over_it_in_a_run():
    async def body(world, server, client):
        world.broker.max_message_bytes = 2  # the connection's own limit is higher
        client.connection.data_received(b"".join(command(b"PUBLISH", b"t", p) for p in (b"1", b"333", b"22")))
        await settle_down()
        assert [line[:4] for line in client.transport.take().splitlines()] == [b"+OK", b"-TOO", b"+OK"]

    serve(body)


def test_a_tiny_limit_for_messages_leaves_room_for_words_and_names():
    async def body(world, server, client):
        assert await client.say(b"PUBLISH a-long-name x") == b"+OK\r\n"

    serve(body, max_message_bytes=1)


def test_a_word_that_is_too_long_ends_the_connection_before_it_comes():
    async def body(world, server, client):
        client.connection.data_received(command(b"ECHO", b"x" * 1024) + b"*2\r\n$4\r\nECHO\r\n$1025\r\n")
        await settle_down()
        assert client.transport.take().endswith(b"x\r\n-ERR Protocol error: invalid bulk length\r\n")
        assert client.transport.is_lost

    serve(body, max_message_bytes=10)


# --- the stream -------------------------------------------------------------------------------------------------


def test_a_stream_gives_a_message_for_every_settle():
    async def body(world, server, client):
        await world.publish(b"t", b"a", b"b", b"c")
        assert await client.say(b"SUBSCRIBE t") == b"$1\r\na\r\n"
        assert await client.say(b"ack") == b"+OK\r\n$1\r\nb\r\n"
        assert await client.say(b"BACK") == b"+OK\r\n$1\r\nc\r\n"
        assert await client.say(b"NACK") == b"+OK\r\n$1\r\nc\r\n"
        assert await client.say(b"DACK 60") == b"+OK\r\n$1\r\nb\r\n"
        assert await client.say(b"ACK") == b"+OK\r\n"
        await world.publish(b"t", b"later")
        assert client.transport.take() == b"$5\r\nlater\r\n"

    serve(body)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PING", b"+PONG\r\n"),
        (b"WHAT", b"-ERR invalid ack command\r\n"),
        (b"TOPICS", b"-ERR invalid ack command\r\n"),
        (b"ACK 1", b"-ERR invalid command\r\n"),
        (b"PUBLISH t x", b"-ERR invalid command\r\n"),
        (b"DACK 1 2", b"-ERR invalid command\r\n"),
        (b"DACK x", b"-BADDELAY "),
    ],
)
def test_anything_else_in_a_stream_leaves_the_message_held(line, reply):
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        assert (await client.say(line)).startswith(reply)
        assert await client.say(b"ACK") == b"+OK\r\n"

    serve(body)


def test_reset_ends_the_stream_and_returns_the_message():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        assert await client.say(b"RESET") == b"+RESET\r\n"
        assert await client.say(b"TOPICS") == b"*1\r\n$1\r\nt\r\n"
        assert await world.drain(b"t") == [b"a"]

    serve(body)


def test_a_message_that_ended_with_its_topic_is_an_error_and_the_stream_goes_on():
    async def body(world, server, client):
        await world.publish(b"t", b"old")
        await client.say(b"SUBSCRIBE t")
        await world.broker.delete_topic(b"t")
        await world.publish(b"t", b"new")
        reply = await client.say(b"ACK")
        assert (reply[:9], reply[-9:]) == (b"-NOLEASE ", b"$3\r\nnew\r\n")

    serve(body)


def test_a_topic_that_cannot_be_read_is_told_and_leaves_the_connection_unsubscribed():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        world.broker._topics[b"t"].fault = StorageError("broken")
        assert await client.say(b"SUBSCRIBE t") == b"-ERR broken\r\n"
        assert world.broker.stats()[b"t"].consumers == 0
        assert await client.say(b"TOPICS") == b"*1\r\n$1\r\nt\r\n"

    serve(body)


def test_a_topic_that_turns_out_to_be_unreadable_is_told_to_who_waits():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await world.restart()
        world.store.fail_scans = set(range(world.store.scan_count, world.store.scan_count + 9))
        client = Client(RespServer(world.broker, {}))
        assert (await client.say(b"SUBSCRIBE t")).startswith(b"-ERR scan ")

    serve(body)


def test_a_pipelined_subscribe_and_settles_work_like_one_by_one():
    async def body(world, server, client):
        await world.publish(b"t", b"a", b"b")
        client.connection.data_received(
            b"".join(command(word) for word in (b"ACK", b"ACK", b"ACK")).join([command(b"SUBSCRIBE", b"t"), b""])
        )
        replies = client.transport.take()
        assert replies.startswith(b"$1\r\na\r\n+OK\r\n$1\r\nb\r\n+OK\r\n-NOLEASE ")

    serve(body)


# --- ends --------------------------------------------------------------------------------------------------------


def test_a_protocol_error_is_told_in_one_line_behind_the_replies_before_it_and_closes():
    async def body(world, server, client):
        client.connection.data_received(command(b"PUBLISH", b"t", b"a") + b"*1\r\n:5\r\n" + command(b"PING"))
        assert not client.transport.is_closed
        await settle_down()
        assert client.transport.take() == b"+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n"
        assert client.transport.is_lost
        assert server.connections == {}
        client.connection.data_received(command(b"PING"))

    serve(body)


def test_quit_answers_what_was_asked_before_and_nothing_after():
    async def body(world, server, client):
        client.connection.data_received(command(b"PUBLISH", b"t", b"a") + command(b"QUIT") + command(b"PING"))
        await settle_down()
        assert client.transport.take() == b"+OK\r\n+OK\r\n"
        assert client.transport.is_lost

    serve(body)


def test_quit_in_a_stream_returns_the_message():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        assert await client.say(b"QUIT") == b"+OK\r\n"
        assert await world.drain(b"t") == [b"a"]

    serve(body)


def test_a_half_closed_connection_gets_its_replies_and_then_ends():
    async def body(world, server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"a")
        assert client.connection.eof_received() is True
        await settle_down()
        assert not client.transport.is_closed
        world.store.may_write.set()
        await settle_down()
        assert client.transport.take() == b"+OK\r\n"
        assert client.transport.is_lost

    serve(body)


def test_a_half_closed_stream_returns_its_message_and_ends():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        client.connection.eof_received()
        assert client.transport.is_closed
        assert await world.drain(b"t") == [b"a"]

    serve(body)


def test_a_lost_connection_with_a_pending_commit_disturbs_nobody():
    async def body(world, server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"a")
        client.send(b"TOPIC", b"DELETE", b"u")
        client.transport.lose()
        world.store.may_write.set()
        await settle_down()
        assert client.transport.take() == b""
        assert await Client(server).say(b"PUBLISH t b") == b"+OK\r\n"
        assert await world.drain(b"t") == [b"a", b"b"]

    serve(body)


def test_draining_returns_every_message_and_closes_when_replies_are_sent():
    async def body(world, server, client):
        await world.publish(b"t", b"a")
        await client.say(b"SUBSCRIBE t")
        publisher = Client(server)
        world.store.may_write.clear()
        publisher.send(b"PUBLISH", b"u", b"x")
        server.drain()
        assert (client.transport.is_closed, publisher.transport.is_closed) == (True, False)
        assert world.broker.stats()[b"t"].leased == 0
        world.store.may_write.set()
        await settle_down()
        assert publisher.transport.take() == b"+OK\r\n"
        assert server.connections == {}

    serve(body)


# --- back-pressure -----------------------------------------------------------------------------------------------


def test_a_peer_that_does_not_read_is_not_read_from():
    async def body(world, server, client):
        client.connection.pause_writing()
        assert not client.transport.is_reading()
        client.send(b"PING")
        assert not client.transport.is_reading()
        client.connection.resume_writing()
        assert client.transport.is_reading()

    serve(body)


def test_a_peer_that_has_much_uncommitted_is_not_read_from_until_it_is_committed(monkeypatch):
    monkeypatch.setattr(resp_output, "MAX_UNCOMMITTED_BYTES", resp_output.WAITING_BYTES + len(b"+OK\r\n") + 10)

    async def body(world, server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"x" * 10)
        assert client.transport.is_reading()
        client.send(b"PUBLISH", b"t", b"x")
        assert not client.transport.is_reading()
        client.connection.resume_writing()
        assert not client.transport.is_reading()
        world.store.may_write.set()
        await settle_down()
        assert client.transport.is_reading()

    serve(body)


@pytest.mark.parametrize("words", [(b"MPUBLISH", b"u", b""), (b"PUBLISH", b"u", b""), (b"TOPIC", b"DELETE", b"u")])
def test_what_waits_without_a_byte_of_payload_is_bounded_too(words, monkeypatch):
    monkeypatch.setattr(resp_output, "MAX_UNCOMMITTED_BYTES", 10 * resp_output.WAITING_BYTES)

    async def body(world, server, client):
        world.store.may_write.clear()
        client.send(b"PUBLISH", b"t", b"x")
        await settle_down()
        for _ in range(9):
            assert client.transport.is_reading()
            client.send(*words)
        assert not client.transport.is_reading()
        world.store.may_write.set()
        await settle_down()
        assert client.transport.is_reading()

    serve(body)


# --- prefetch ---------------------------------------------------------------------------------------------------


def test_a_stream_with_prefetch_names_its_messages():
    async def body(world, server, client):
        await world.publish(b"t", b"a", b"b", b"c")
        first, second = b"*3\r\n$1\r\n1\r\n$1\r\na\r\n*0\r\n", b"*3\r\n$1\r\n2\r\n$1\r\nb\r\n*0\r\n"
        assert await client.say(b"SUBSCRIBE t PREFETCH 2") == first + second
        third = b"*3\r\n$1\r\n3\r\n$1\r\nc\r\n*0\r\n"
        assert await client.say(b"ACK 2") == b"+OK\r\n" + third
        again = b"*3\r\n$1\r\n4\r\n$1\r\na\r\n*2\r\n$5\r\nnacks\r\n:1\r\n"
        assert await client.say(b"NACK 1") == b"+OK\r\n" + again
        assert await client.say(b"DACK 60 3 4") == b"+OK\r\n"
        assert world.broker.stats()[b"t"].delayed == 2

    serve(body)


@pytest.mark.parametrize(
    ("line", "start"),
    [
        (b"ACK", b"-NOLEASE 0 of 0 receipts"),
        (b"ACK x", b"-NOLEASE 1 of 1 receipts"),
        (b"ACK 1 9", b"-NOLEASE 1 of 2 receipts"),
        (b"DACK 5", b"-NOLEASE 0 of 0 receipts"),
        (b"DACK x 1", b"-BADDELAY "),
        (b"FETCH 1", b"-ERR invalid command"),
    ],
)
def test_a_bad_word_to_a_stream_with_prefetch_is_an_error_and_the_stream_goes_on(line, start):
    async def body(world, server, client):
        await world.publish(b"t", b"a", b"b")
        await client.say(b"SUBSCRIBE t PREFETCH 2")
        assert (await client.say(line)).startswith(start)
        assert await client.say(b"ACK 2") == b"+OK\r\n"

    serve(body)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (b"PREFETCH 0", b"-BADPREFETCH "),
        (b"PREFETCH 10001", b"-BADPREFETCH "),
        (b"PREFETCH x", b"-BADPREFETCH "),
        (b"PREFETCH", b"-ERR invalid number of args"),
        (b"GROUP 1", b"-ERR invalid number of args"),
    ],
)
def test_a_bad_prefetch_leaves_no_stream(words, start):
    async def body(world, server, client):
        assert (await client.say(b"SUBSCRIBE t " + words)).startswith(start)
        assert await client.say(b"TOPICS") == b"*0\r\n"

    serve(body)


def test_several_messages_are_published_together():
    async def body(world, server, client):
        ids = b"*3\r\n$3\r\n0-0\r\n$3\r\n0-1\r\n$3\r\n0-2\r\n"
        assert await client.say(b"MPUBLISH t a b c") == ids
        assert await world.drain(b"t") == [b"a", b"b", b"c"]

    serve(body)


def test_one_message_that_is_too_large_keeps_all_from_being_published():
    async def body(world, server, client):
        assert (await client.say(b"MPUBLISH t a bbbbbbbbbbbb")).startswith(b"-TOOBIG ")
        assert world.broker.topics() == []

    serve(body, max_message_bytes=10)


# --- a peer that does not read its replies ----------------------------------------------------------------------


def test_replies_wait_for_a_peer_that_does_not_read_and_none_is_lost():
    async def body(world, server, client):
        for n in range(100):
            await world.publish(b"topic-%03d" % n + b"x" * 200, b"x")
        client.transport.high_water_bytes = 1
        client.connection.data_received(command(b"TOPICS") * 500 + command(b"ECHO", b"last"))
        await settle_down()
        written = client.transport.take()
        assert len(written) < 2 * resp_output.MAX_UNSENT_BYTES
        assert not client.transport.is_reading()
        client.transport.high_water_bytes = None
        client.connection.resume_writing()
        await settle_down()
        written += client.transport.take()
        assert (written.count(b"*100\r\n"), written[-10:]) == (500, b"$4\r\nlast\r\n")
        assert client.transport.is_reading()

    serve(body)


def test_a_peer_that_does_not_read_is_not_sent_the_same_message_over_and_over():
    async def body(world, server, client):
        await world.publish(b"t", b"x" * 10_000)
        client.transport.high_water_bytes = 50_000
        client.connection.data_received(command(b"SUBSCRIBE", b"t") + command(b"NACK") * 500)
        await settle_down()
        assert len(client.transport.take()) < 70_000
        client.transport.high_water_bytes = None
        client.connection.resume_writing()
        await settle_down()
        assert client.transport.take().endswith(b"+OK\r\n$10000\r\n" + b"x" * 10_000 + b"\r\n")
        assert world.broker.stats()[b"t"].leased == 1
        assert client.transport.is_reading()

    serve(body)


def test_bytes_that_are_no_command_are_refused_only_after_what_was_postponed():
    async def body(world, server, client):
        client.transport.high_water_bytes = 1
        client.connection.data_received(command(b"ECHO", b"x" * 10_000) * 200 + b"%1\r\n")
        await settle_down()
        assert b"-ERR" not in client.transport.take()
        client.transport.high_water_bytes = None
        client.connection.resume_writing()
        await settle_down()
        assert client.transport.take().splitlines()[-1].startswith(b"-ERR Protocol error")

    serve(body)


def test_replies_behind_a_commit_are_bounded_too():
    async def body(world, server, client):
        world.store.may_write = asyncio.Event()
        client.connection.data_received(command(b"PUBLISH", b"t", b"x") + command(b"ECHO", b"x" * 10_000) * 500)
        await settle_down()
        assert (client.transport.take(), client.transport.is_reading()) == (b"", False)
        assert client.connection._unsent_bytes < 2 * resp_output.MAX_UNSENT_BYTES
        world.store.may_write.set()
        await settle_down()
        assert client.transport.take().count(b"$10000\r\n") == 500
        assert client.transport.is_reading()

    serve(body)


def test_the_settings_of_a_topic_are_told_as_they_can_be_set():
    async def body(world, server, client):
        assert await client.say(b"TOPIC CREATE t max_deliveries 5") == b"+OK\r\n"
        assert (await client.say(b"TOPIC CREATE t")).startswith(b"-EXISTS ")
        assert await client.say(b"TOPIC SET t retry_delays 1,2.5 max_deliveries default") == b"+OK\r\n"
        words = (await client.say(b"TOPIC GET t")).split(b"\r\n")[2::2]
        assert words[:8] == [
            *(b"lease_seconds", b"default", b"max_deliveries", b"0"),
            *(b"dead_letter_topic", b"default", b"retry_delays", b"1,2.5"),
        ]
        assert await client.say(b"TOPIC SET t " + b" ".join(words)) == b"+OK\r\n"
        await client.say(b"HELLO 3")
        assert (await client.say(b"TOPIC GET t")).startswith(b"%12\r\n")

    serve(body)


def test_dead_letters_are_moved_back():
    async def body(world, server, client):
        await client.say(b"TOPIC CREATE t max_deliveries 1")
        await client.say(b"PUBLISH t a")
        await client.say(b"SUBSCRIBE t")
        await client.say(b"NACK")
        other = Client(server)
        await world.commit()
        assert (await other.say(b"REDRIVE t.dlq LIMIT 0")).startswith(b"-ERR a limit is a whole number")
        assert (await other.say(b"REDRIVE t.dlq RATE fast")).startswith(b"-ERR a rate is a number")
        assert (await other.say(b"REDRIVE nothing")).startswith(b"-NOTOPIC ")
        assert await other.say(b"REDRIVE t.dlq LIMIT 5") == b":1\r\n"
        assert client.transport.take() == b"$1\r\na\r\n"

    serve(body)
