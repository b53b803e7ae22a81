"""RESP commands: what each answers, and what COMMAND, HELLO, CLIENT and INFO tell."""

import pytest

from miniqueue.server.resp.commands.table import COMMANDS
from tests.server.resp.clients import Client

PING_DESCRIBED = b"*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n$4\r\nfast\r\n" + b":0\r\n" * 3 + b"*0\r\n" * 4


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"PING", b"+PONG\r\n"),
        (b"ping hello", b"$5\r\nhello\r\n"),
        (b"PING a b", b"-ERR invalid number of args, want: 1; syntax: "),
        (b"ECHO x", b"$1\r\nx\r\n"),
        (b"ECHO", b"-ERR invalid number of args, want: 2; syntax: "),
        (b"PUBLISH t x", b"+OK\r\n"),
        (b"Publish t x", b"+OK\r\n"),
        (b"PUBLISH t", b"-ERR invalid number of args, want: 3; syntax: "),
        (b"PUBLISH a/b x", b"-BADTOPIC "),
        (b"SUBSCRIBE", b"-ERR invalid number of args, want: 2; syntax: "),
        (b"SUBSCRIBE a/b", b"-BADTOPIC "),
        (b"ACK", b"-NOLEASE No message is outstanding\r\n"),
        (b"NACK", b"-NOLEASE "),
        (b"BACK", b"-NOLEASE "),
        (b"DACK", b"-NOLEASE "),
        (b"DACK 1", b"-NOLEASE "),
        (b"ACK x", b"-NOLEASE No message is outstanding\r\n"),
        (b"DACK x y", b"-NOLEASE No message is outstanding\r\n"),
        (b"REJECT x y", b"-ERR invalid number of args, want: at least 4; syntax: "),
        (b"GET t", b"$-1\r\n"),
        (b"GET a/b", b"-BADTOPIC "),
        (b"ACK t 1-1", b"-NOLEASE the receipt belongs to no message that is leased now\r\n"),
        (b"EXTEND t 1-1 1", b"-NOLEASE "),
        (b"EXTEND t 1-1 0", b"-BADDELAY a lease is "),
        (b"REJECT t 1-1 broken", b"-NOLEASE "),
        (b"RECEIVE t", b"*0\r\n"),
        (b"RECEIVE a/b", b"-BADTOPIC "),
        (b"RECEIVE t group default count 5 wait 0 lease 5 autoack", b"*0\r\n"),
        (b"RECEIVE t GROUP a/b", b"-BADGROUP "),
        (b"RECEIVE t COUNT 0", b"-BADPREFETCH "),
        (b"RECEIVE t COUNT 10001", b"-BADPREFETCH "),
        (b"RECEIVE t WAIT -1", b"-BADDELAY a wait is "),
        (b"RECEIVE t WAIT 60.1", b"-BADDELAY a wait is "),
        (b"RECEIVE t LEASE x", b"-BADDELAY a lease is "),
        (b"RECEIVE t LEASE", b"-ERR syntax error in RECEIVE option 'LEASE'\r\n"),
        (b"RECEIVE t WHAT 1", b"-ERR syntax error in RECEIVE option 'WHAT'\r\n"),
        (b"TOPICS", b"*0\r\n"),
        (b"TOPICS x", b"-ERR invalid number of args, want: 1; syntax: "),
        (b"TOPIC DELETE t", b"+OK\r\n"),
        (b"TOPIC DELETE", b"-ERR invalid number of args, want: 3; syntax: "),
        (b"TOPIC", b"-ERR invalid number of args, want: at least 2; syntax: "),
        (b"TOPIC DELETE a/b", b"-BADTOPIC "),
        (b"TOPIC CREATE t", b"+OK\r\n"),
        (b"TOPIC CREATE t lease_seconds 60 RETRY 1", b"-BADSETTING RETRY is no setting; there are "),
        (b"TOPIC CREATE t LEASE_SECONDS 60 Retry_Delays 1", b"+OK\r\n"),
        (b"TOPIC CREATE t lease_seconds", b"-BADSETTING lease_seconds must be followed by a value\r\n"),
        (b"TOPIC CREATE t max_deliveries many", b"-BADSETTING max_deliveries must be a whole number from 0, no limit,"),
        (b"TOPIC CREATE a/b", b"-BADTOPIC "),
        (b"TOPIC SET t max_deliveries 5", b"-NOTOPIC There is no such topic\r\n"),
        (b"TOPIC SET t", b"-ERR invalid number of args, want: at least 5; syntax: "),
        (b"TOPIC GET t", b"-NOTOPIC "),
        (b"TOPIC GET t x", b"-ERR invalid number of args, want: 3; syntax: "),
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
        (b"AUTH", b"-ERR invalid number of args, want: at least 2; syntax: "),
        (b"AUTH a b c", b"-ERR invalid number of args, want: 3; syntax: "),
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
        (b"CLUSTER KEYSLOT 123456789", b":12739\r\n"),
        (b"CLUSTER KEYSLOT", b"-ERR unknown subcommand or wrong number of arguments for CLUSTER 'KEYSLOT'"),
        (b"CLUSTER SLOTS", b"*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:6379\r\n"),
        (b"CLUSTER ADDSLOTS 1", b"-ERR unknown subcommand"),
        (b"COMMAND COUNT", b":%d\r\n" % len(COMMANDS)),
        (b"COMMAND INFO len", b"*1\r\n*10\r\n$3\r\nlen\r\n:-2\r\n*1\r\n$4\r\nfast\r\n:1\r\n:1\r\n:1\r\n*0"),
        (b"COMMAND INFO ping what", b"*2\r\n" + PING_DESCRIBED + b"$-1\r\n"),
        (b"COMMAND DOCS ack what", b"*2\r\n$3\r\nack\r\n*6\r\n$7\r\nsummary\r\n"),
        (b"COMMAND GETKEYS x", b"-ERR unknown subcommand"),
        (b"RESET", b"+RESET\r\n"),
        (b"WHAT x", b"-ERR unknown command 'WHAT'\r\n"),
        (b"W\x1b[31m", b"-ERR unknown command 'W?[31m'\r\n"),
    ],
)  # fmt: skip
async def test_reply_of(line, reply, client):
    assert (await client.say(line))[: len(reply)] == reply
    assert not client.transport.is_closed
    assert await client.say(b"PING") == (b"+PONG\r\n" if line != b"SUBSCRIBE t" else b"")


@pytest.mark.parametrize("character", [b"[", b"*", b"?"])
async def test_a_long_pattern_costs_no_time(character, client):
    assert await client.say(b"CONFIG GET " + character * 60_000) == b"*0\r\n"


@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_every_command_checks_its_number_of_words(name, client):
    arity = COMMANDS[name].arity
    counts = [arity - 1, arity + 1] if arity > 0 else range(1, -arity)
    for count in filter(None, counts):
        wanted = COMMANDS[name].plain_arity or (arity if arity > 0 else f"at least {-arity}")
        expected = f"-ERR invalid number of args, want: {wanted}; syntax: {name.decode()}".encode()
        assert (await client.say(b" ".join([name, *[b"x"] * (count - 1)]))).startswith(expected)


async def test_commands_describe_every_command(client):
    assert (await client.say(b"COMMAND")).startswith(b"*%d\r\n" % len(COMMANDS))
    assert all(entry.summary for entry in COMMANDS.values())


async def test_version_3_has_maps_and_nulls_of_its_own(client):
    assert (await client.say(b"HELLO")).startswith(b"*14\r\n$6\r\nserver\r\n$9\r\nminiqueue\r\n")
    hello = await client.say(b"HELLO 3 AUTH default x SETNAME me")
    assert hello.startswith(b"%7\r\n$6\r\nserver\r\n")
    assert b"$5\r\nproto\r\n:3\r\n" in hello
    assert await client.say(b"CLIENT GETNAME") == b"$2\r\nme\r\n"
    assert await client.say(b"CONFIG GET port") == b"%1\r\n$4\r\nport\r\n$4\r\n6379\r\n"
    assert await client.say(b"COMMAND INFO what") == b"*1\r\n_\r\n"
    assert (await client.say(b"COMMAND DOCS ack")).startswith(b"%1\r\n$3\r\nack\r\n%3\r\n")
    assert await client.say(b"RESET") == b"+RESET\r\n"
    assert await client.say(b"CLIENT GETNAME") == b"$-1\r\n"


async def test_client_list_shows_every_connection(server, client):
    other = Client(server)
    await other.say(b"SUBSCRIBE t")
    await client.say(b"CLIENT SETNAME me")
    listed = await client.say(b"CLIENT LIST")
    assert b"id=1 addr=127.0.0.1:50000 name=me user=default db=0 resp=2 sub=0" in listed
    assert b"id=2 addr=127.0.0.1:50000 name= user=default db=0 resp=2 sub=1 lib-name= lib-ver= topic=t " in listed


@pytest.mark.parametrize("name", [b"a b", b"a\nb", b"\xff", b"x" * 256])
async def test_a_client_name_is_one_printable_word(name, client):
    client.send(b"CLIENT", b"SETNAME", name)
    assert client.transport.take().startswith(b"-ERR client names cannot contain")


async def test_info_counts(world, client):
    await world.publish(b"t", b"a", b"b")
    info = await client.say(b"INFO")
    for line in (b"connected_clients:1", b"topics:1", b"messages:2", b"refusal:\r\n", b"tcp_port:6379"):
        assert line in info
