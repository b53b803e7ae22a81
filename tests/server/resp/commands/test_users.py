"""RESP with users: the way in, every command for every role, and what is held while a secret is looked at."""

from contextlib import asynccontextmanager

import pytest

from miniqueue.access.hashing import hash_password
from miniqueue.access.rights import COMMANDS as RIGHTS
from miniqueue.access.users import User
from miniqueue.broker.acts.orders import MessageAct
from miniqueue.server.resp import guard
from miniqueue.server.resp.commands import groups, schedules
from miniqueue.server.resp.commands import topics as resp_topics
from miniqueue.server.resp.commands.connection import _CLIENT_SUBCOMMANDS
from miniqueue.server.resp.commands.table import COMMANDS
from miniqueue.server.resp.server import RespServer
from tests.broker.support import started_world
from tests.fakes import FakeConsumer, settle_down
from tests.server.access import EVERYBODY, sign_in_for, token_of, user
from tests.server.resp.clients import PARAMETERS, Client, command
from tests.serving import eventually

NOAUTH = b"-NOAUTH Authentication required.\r\n"
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
NOPERM = b"-NOPERM this user has no permissions to run the '%b' command\r\n"

#: A whole command for each row of the table of rights.
WHOLE = {
    b"AUTH": [b"AUTH", b"stranger", token_of("stranger")],
    b"HELLO": [b"HELLO", b"2"],
    b"PUBLISH": [b"PUBLISH", b"orders", b"x"],
    b"PUB": [b"PUB", b"orders", b"x", b"KEY", b"k"],
    b"MPUBLISH": [b"MPUBLISH", b"orders", b"x", b"y"],
    b"PUBBATCH": [b"PUBBATCH", b"orders", b"7f", b"x"],
    b"PUBEACH": [b"PUBEACH", b"orders", b"7f", b"x", b"0"],
    b"PUBPACKED": [b"PUBPACKED", b"orders", b"80", b"\1\0\0\0", b"x"],
    b"SUBSCRIBE": [b"SUBSCRIBE", b"orders"],
    b"REQUEST": [b"REQUEST", b"orders", b"x", b"TIMEOUT", b"0.001"],
    b"REPLY": [b"REPLY", b"orders", b"1-1", b"x"],
    b"SUB": [b"SUB", b"orders"],
    b"GET": [b"GET", b"orders"],
    b"RECEIVE": [b"RECEIVE", b"orders"],
    b"RECEIVEANY": [b"RECEIVEANY", b"PATTERN", b"jobs.*", b"TOPICS", b"orders"],
    b"ACK": [b"ACK", b"orders", b"x"],
    b"NACK": [b"NACK", b"orders", b"x"],
    b"BACK": [b"BACK", b"orders", b"x"],
    b"DACK": [b"DACK", b"orders", b"x", b"1"],
    b"REJECT": [b"REJECT", b"orders", b"x", b"broken"],
    b"EXTEND": [b"EXTEND", b"orders", b"x", b"1"],
    b"LEASES": [b"LEASES", b"orders"],
    b"TOPIC": [b"TOPIC", b"WHAT"],
    b"REDRIVE": [b"REDRIVE", b"orders"],
    b"TOPIC CREATE": [b"TOPIC", b"create", b"orders"],
    b"TOPIC SET": [b"TOPIC", b"Set", b"orders", b"max_deliveries", b"5"],
    b"TOPIC GET": [b"TOPIC", b"get", b"orders"],
    b"TOPIC DELETE": [b"TOPIC", b"delete", b"orders"],
    b"TOPIC HELP": [b"TOPIC", b"help"],
    b"LEN": [b"LEN", b"orders"],
    b"GROUP": [b"GROUP", b"WHAT", b"orders"],
    b"GROUP CREATE": [b"GROUP", b"create", b"orders", b"g"],
    b"GROUP LIST": [b"GROUP", b"list", b"orders"],
    b"GROUP MEMBERS": [b"GROUP", b"members", b"orders", b"g"],
    b"GROUP HOLDERS": [b"GROUP", b"holders", b"orders", b"g"],
    b"GROUP SEEK": [b"GROUP", b"seek", b"orders", b"g", b"latest"],
    b"GROUP DELETE": [b"GROUP", b"delete", b"orders", b"g"],
    b"PAUSE": [b"PAUSE", b"orders"],
    b"RESUME": [b"RESUME", b"orders"],
    b"PURGE": [b"PURGE", b"orders"],
    b"CANCEL": [b"CANCEL", b"orders", b"0-1-1"],
    b"SCHEDULE": [b"SCHEDULE", b"WHAT"],
    b"SCHEDULE SET": [b"SCHEDULE", b"set", b"s", b"EVERY", b"60", b"orders", b"x"],
    b"SCHEDULE GET": [b"SCHEDULE", b"get", b"s"],
    b"SCHEDULE LIST": [b"SCHEDULE", b"List"],
    b"SCHEDULE DELETE": [b"SCHEDULE", b"delete", b"s"],
    b"STATS": [b"STATS", b"orders"],
    b"PEEK": [b"PEEK", b"orders"],
    b"MESSAGE": [b"MESSAGE", b"CARRY", b"orders"],
    b"MESSAGES": [b"MESSAGES", b"CARRY", b"orders"],
    b"MESSAGES DELETE": [b"MESSAGES", b"DELETE", b"orders"],
    b"MESSAGES FRONT": [b"MESSAGES", b"FRONT", b"orders"],
    b"MESSAGES REDRIVE": [b"MESSAGES", b"REDRIVE", b"orders"],
    b"MESSAGES DUE": [b"MESSAGES", b"DUE", b"orders"],
    b"TASK": [b"TASK", b"LIST"],
    b"MESSAGE DELETE": [b"MESSAGE", b"DELETE", b"orders", b"0-0"],
    b"MESSAGE FRONT": [b"MESSAGE", b"FRONT", b"orders", b"0-0"],
    b"MESSAGE REDRIVE": [b"MESSAGE", b"REDRIVE", b"orders", b"0-0"],
    b"MESSAGE DUE": [b"MESSAGE", b"DUE", b"orders", b"0-0"],
    b"SCHEDULE FIRE": [b"SCHEDULE", b"FIRE", b"s"],
    b"SEARCH": [b"SEARCH", b"orders"],
    b"TRACE": [b"TRACE", b"orders", b"0-0"],
    b"READ": [b"READ", b"orders", b"0", b"0"],
    b"PARTITIONS": [b"PARTITIONS", b"orders"],
    b"CONFIG": [b"CONFIG", b"GET", b"*"],
    b"CLIENT": [b"CLIENT", b"ID"],
    b"CLIENT LIST": [b"CLIENT", b"List"],
    b"SELECT": [b"SELECT", b"0"],
    b"ECHO": [b"ECHO", b"x"],
}  # fmt: skip
OPEN = {b"AUTH", b"HELLO", b"PING", b"QUIT", b"RESET", b"MULTI"}
#: Who may do what, written down once more and by hand; `-of-all` also stands for the broker as a whole.
ALLOWED = {
    b"PUBLISH": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"PUB": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"MPUBLISH": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"PUBBATCH": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"PUBEACH": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"PUBPACKED": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"REQUEST": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"REPLY": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"SUBSCRIBE": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"SUB": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"GET": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"RECEIVE": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"RECEIVEANY": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"ACK": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"NACK": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"BACK": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"DACK": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"REJECT": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"EXTEND": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"LEASES": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"READ": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"PARTITIONS": {"subscriber", "subscriber-of-all", "admin", "admin-of-all"},
    b"TOPIC": {"admin-of-all"},
    b"REDRIVE": {"admin", "admin-of-all"},
    b"TOPIC CREATE": {"admin", "admin-of-all"},
    b"TOPIC SET": {"admin", "admin-of-all"},
    b"TOPIC DELETE": {"admin", "admin-of-all"},
    b"TOPIC GET": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"GROUP": {"admin-of-all"},
    b"GROUP CREATE": {"admin", "admin-of-all"},
    b"GROUP LIST": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"GROUP MEMBERS": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"GROUP HOLDERS": {"monitor-of-all", "admin-of-all"},
    b"GROUP SEEK": {"admin", "admin-of-all"},
    b"GROUP DELETE": {"admin", "admin-of-all"},
    b"PAUSE": {"admin", "admin-of-all"},
    b"RESUME": {"admin", "admin-of-all"},
    b"PURGE": {"admin", "admin-of-all"},
    b"CANCEL": {"publisher", "publisher-of-all", "admin", "admin-of-all"},
    b"MESSAGE": {"admin-of-all"},
    b"MESSAGES": {"admin-of-all"},
    b"MESSAGES DELETE": {"admin", "admin-of-all"},
    b"MESSAGES FRONT": {"admin", "admin-of-all"},
    b"MESSAGES REDRIVE": {"admin", "admin-of-all"},
    b"MESSAGES DUE": {"admin", "admin-of-all"},
    b"MESSAGE DELETE": {"admin", "admin-of-all"},
    b"MESSAGE FRONT": {"admin", "admin-of-all"},
    b"MESSAGE REDRIVE": {"admin", "admin-of-all"},
    b"MESSAGE DUE": {"admin", "admin-of-all"},
    b"SCHEDULE FIRE": {"admin-of-all"},
    b"SCHEDULE": {"admin-of-all"},
    b"SCHEDULE SET": {"admin-of-all"},
    b"SCHEDULE GET": {"monitor-of-all", "admin-of-all"},
    b"SCHEDULE LIST": {"monitor-of-all", "admin-of-all"},
    b"SCHEDULE DELETE": {"admin-of-all"},
    b"LEN": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"STATS": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"SEARCH": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"PEEK": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"TRACE": {"monitor", "monitor-of-all", "admin", "admin-of-all"},
    b"INFO": {"monitor-of-all", "admin-of-all"},
    b"CONFIG": {"monitor-of-all", "admin-of-all"},
    b"CLIENT LIST": {"monitor-of-all", "admin-of-all"},
}
FOR_EVERY_USER = {
    b"PSUBSCRIBE",
    b"UNSUBSCRIBE",
    b"PUNSUBSCRIBE",
    b"TOPICS",
    b"USAGE",
    b"EVENTS",
    b"TOPIC HELP",
    b"TASK",
    b"CLIENT",
    b"CLUSTER",
    b"COMMAND",
    b"SELECT",
    b"ECHO",
    b"EXEC",
    b"DISCARD",
    b"WATCH",
    b"UNWATCH",
}


@asynccontextmanager
async def served_to(*users):
    """Yield world, server and client on a server with users."""

    async with started_world() as world:
        server = RespServer(world.broker, PARAMETERS, sign_in_for(*users))
        client = Client(server)
        try:
            yield world, server, client
        finally:
            client.connection.guard.stop()


async def enter(client, name):
    client.send(b"AUTH", name.encode(), token_of(name))
    await settle_down()
    assert client.transport.take() == b"+OK\r\n"


async def ask(client, *words):
    """Send one command; return the reply, also when a password has to be looked at."""
    client.send(*words)
    await eventually(lambda: client.connection._hold is None)
    await settle_down()
    return client.transport.take()


def test_the_table_has_every_command_and_no_other():
    assert {name.partition(b" ")[0] for name in RIGHTS} == COMMANDS.keys()
    subcommands = {name for name in RIGHTS if b" " in name}
    topic_subcommands = {b"TOPIC %b" % word for word in resp_topics.SUBCOMMANDS}
    topic_subcommands |= {b"SCHEDULE %b" % word for word in schedules.SUBCOMMANDS}
    acts = [act.upper().encode() for act in MessageAct]
    topic_subcommands |= {b"%b %b" % (word, act) for word in (b"MESSAGE", b"MESSAGES") for act in acts}
    topic_subcommands |= {b"GROUP %b" % word for word in groups.SUBCOMMANDS}
    assert topic_subcommands <= subcommands
    assert subcommands <= topic_subcommands | {b"CLIENT %b" % word for word, _ in _CLIENT_SUBCOMMANDS}
    assert ALLOWED.keys() | FOR_EVERY_USER | OPEN == RIGHTS.keys()


@pytest.mark.parametrize("name", sorted(RIGHTS))
async def test_before_auth_there_is_next_to_nothing(name):
    async with served_to() as (_world, _server, client):
        reply = await ask(client, *WHOLE.get(name, [name]))
        if name not in OPEN:
            assert reply == NOAUTH
        elif name == b"HELLO":
            assert reply.startswith(b"-NOAUTH HELLO must be called with the client already authenticated")
        else:
            assert reply[:1] == b"+"


@pytest.mark.parametrize("count", [1, 3])
async def test_before_auth_not_even_a_topic_without_a_name_is_looked_at(count):
    async with served_to() as (_world, _server, client):
        client.connection.data_received(command(b"PUBLISH", b"", b"x") * count)
        assert client.transport.take() == NOAUTH * count


@pytest.mark.parametrize("line", [b"WHAT", b"PUBLISH", b"CLIENT", b"SUBSCRIBE", b"PUBLISH orders " + b"x" * 20])
async def test_before_auth_mistakes_are_not_explained(line):
    async with served_to() as (_world, _server, client):
        assert await client.say(line) == NOAUTH


@pytest.mark.parametrize("name", ["publisher", "monitor"])
@pytest.mark.parametrize("is_tls", [True, False], ids=["TLS", "reset"])
async def test_commands_after_auth_of_a_client_that_leaves_are_carried_out_if_it_may(name, is_tls):
    async with served_to() as (world, server, _client):
        client = Client(server, is_tls=is_tls)
        sent = command(b"AUTH", name.encode(), token_of(name)) + command(b"PUBLISH", b"orders", b"x")
        client.connection.data_received(sent)
        if is_tls:
            assert not client.connection.eof_received()
        client.transport.lose()
        await eventually(lambda: client.connection not in server.all_connections())
        assert FakeConsumer(world.broker, b"orders").drain() == ([b"x"] if name == "publisher" else [])


@pytest.mark.parametrize("topic", [b"orders", b"other"])
@pytest.mark.parametrize("user", EVERYBODY, ids=lambda user: user.name)
async def test_every_command_is_for_those_whom_the_table_names(user, topic):
    async with served_to() as (world, server, _client):
        await world.publish(b"orders", b"x")
        for name in sorted(RIGHTS):
            client = Client(server)
            await enter(client, user.name)
            words = [topic if word == b"orders" else word for word in WHOLE.get(name, [name])]
            reply = await ask(client, *words)
            allowed = ALLOWED.get(name, {known.name for known in EVERYBODY})
            if b"orders" in WHOLE.get(name, ()) and topic == b"other":
                allowed = {name for name in allowed if name.endswith("-of-all")}
            is_refused = reply == NOPERM % words[0].lower()
            assert is_refused is (user.name not in allowed), (name, reply)
            client.transport.lose()


@pytest.mark.parametrize(
    ("name", "expected"), [("subscriber", [b"orders"]), ("subscriber-of-all", [b"orders", b"other"]), ("monitor", [])]
)
async def test_of_the_topics_that_fit_a_pattern_a_user_gets_those_that_it_may_consume(name, expected):
    async with served_to() as (world, _server, client):
        for topic in (b"orders", b"other"):
            await world.publish(topic, b"x")
        await enter(client, name)
        reply = await ask(client, b"RECEIVEANY", b"COUNT", b"10", b"PATTERN", b"o*")
        assert [topic for topic in (b"orders", b"other") if b"\r\n%b\r\n" % topic in reply] == expected
        assert reply.startswith(b"*%d\r\n" % len(expected))


@pytest.mark.parametrize("user", EVERYBODY, ids=lambda user: user.name)
async def test_figures_of_all_topics_are_for_those_who_may_look_into_all(user):
    async with served_to() as (_world, _server, client):
        await enter(client, user.name)
        is_refused = await ask(client, b"STATS") == NOPERM % b"stats"
        assert is_refused is (user.name not in {"monitor-of-all", "admin-of-all"})


@pytest.mark.parametrize(
    "name", sorted(name for name, needs in RIGHTS.items() if needs.topic_at and name not in {b"STATS", b"LEASES"})
)
async def test_a_command_without_the_word_for_its_topic_does_nothing(name):
    async with served_to() as (_world, _server, client):
        await enter(client, "admin-of-all")
        words = name.split()
        assert len(words) == RIGHTS[name].topic_at
        refusal = b"-NOLEASE " if name in (b"ACK", b"NACK", b"BACK", b"DACK") else b"-ERR invalid number of args"
        assert (await ask(client, *words)).startswith(refusal)


@pytest.mark.parametrize(
    "line",
    [
        b"PUBLISH orders x",
        b"publish orders x",
        b"Publish orders x",
        b"MPUBLISH orders x y",
        b"TOPIC DELETE orders",
    ],
)
async def test_a_subscriber_changes_nothing_on_any_path(line):
    async with served_to() as (world, _server, client):
        await world.publish(b"orders", b"kept")
        await enter(client, "subscriber-of-all")
        assert (await client.say(line)).startswith(b"-NOPERM ")
        client.connection.data_received(command(*line.split()) * 3)  # a run
        await settle_down()
        assert client.transport.take().count(b"-NOPERM ") == 3
        await client.say(b"SUBSCRIBE orders")
        assert not (await client.say(line)).startswith(b"+")
        client.transport.lose()
        assert FakeConsumer(world.broker, b"orders").drain() == [b"kept"]


async def test_a_run_to_another_topic_is_refused_behind_one_that_was_allowed():
    async with served_to() as (world, _server, client):
        await enter(client, "publisher")
        run_of = [command(b"PUBLISH", topic, b"x") * 2 for topic in (b"orders", b"other", b"orders")]
        client.connection.data_received(b"".join(run_of))
        await settle_down()
        ok, no = b"+OK\r\n" * 2, NOPERM % b"publish" * 2
        assert client.transport.take() == ok + no + ok
        assert world.broker.topics() == [b"orders"]


async def test_a_message_to_another_topic_is_refused_among_those_with_unique_keys_that_are_published_together():
    async with served_to() as (world, _server, client):
        await enter(client, "publisher")
        topics = (b"orders", b"invoices", b"orders")
        lines = [command(b"PUB", topic, b"x", b"UNIQUE", b"%d" % i) for i, topic in enumerate(topics)]
        client.connection.data_received(b"".join(lines))
        await settle_down()
        replies = [b"*2\r\n$3\r\n0-%d\r\n:0\r\n" % seq for seq in (0, 1)]
        assert client.transport.take() == (NOPERM % b"pub").join(replies)
        assert world.broker.topics() == [b"orders"]


async def test_topics_lists_those_that_the_user_has_a_role_for():
    async with served_to() as (world, _server, client):
        for topic in (b"orders", b"orders.eu", b"other"):
            await world.publish(topic, b"x")
        await enter(client, "stranger")
        assert await client.say(b"TOPICS") == b"*0\r\n"
        await enter(client, "subscriber")
        assert await client.say(b"TOPICS") == b"*1\r\n$6\r\norders\r\n"
        await enter(client, "publisher-of-all")
        assert (await client.say(b"TOPICS")).startswith(b"*3\r\n")


async def test_client_list_names_the_users():
    async with served_to() as (_world, server, client):
        await enter(client, "monitor-of-all")
        other = Client(server)
        listed = await client.say(b"CLIENT LIST")
        assert b"user=monitor-of-all " in listed
        assert b"user= " in listed
        other.connection.guard.stop()


async def test_a_password_holds_the_commands_behind_it_and_replies_keep_their_order():
    ada = User("ada", hash_password(b"correct horse"), roles={"publisher": ("*",)})

    async with served_to(ada) as (_world, _server, client):
        client.connection.data_received(
            command(b"PING") + command(b"AUTH", b"ada", b"correct horse") + command(b"PUBLISH", b"t", b"x") * 2
        )
        assert client.transport.take() == b"+PONG\r\n"
        assert not client.transport.is_reading()
        client.connection.data_received(command(b"ECHO", b"late"))  # what was in flight already
        await eventually(lambda: client.transport.written.endswith(b"late\r\n"))
        assert client.transport.take() == b"+OK\r\n" * 3 + b"$4\r\nlate\r\n"
        assert client.transport.is_reading()


async def test_bytes_that_are_no_command_are_refused_only_after_the_password_before_them():
    ada = User("ada", hash_password(b"correct horse"))

    async with served_to(ada) as (_world, _server, client):
        client.connection.data_received(command(b"AUTH", b"ada", b"correct horse") + b"%1\r\n")
        await eventually(lambda: client.transport.is_closed)
        assert client.transport.take().startswith(b"+OK\r\n-ERR Protocol error")


async def test_who_leaves_while_the_password_is_looked_at_is_forgotten():
    ada = User("ada", hash_password(b"correct horse"))

    async with served_to(ada) as (_world, _server, client):
        client.send(b"AUTH", b"ada", b"correct horse")
        client.transport.lose()
        await client.connection.guard._task
        assert client.transport.written == b""


async def test_hello_signs_in_and_does_the_rest_only_then():
    async with served_to(user("robot")) as (_world, _server, client):
        assert await ask(client, *b"HELLO 3 SETNAME me AUTH robot wrong".split()) == WRONGPASS
        assert await ask(client, *b"HELLO 3 AUTH robot token-of".split()) == WRONGPASS
        assert client.connection.session.protocol == 2
        client.send(b"HELLO", b"3", b"AUTH", b"robot", token_of("robot"), b"SETNAME", b"me")
        await settle_down()
        assert client.transport.take().startswith(b"%7\r\n")
        assert client.connection.session.name == b"me"
        assert (await client.say(b"HELLO")).startswith(b"%7\r\n")


async def test_a_token_alone_is_enough():
    async with served_to(user("robot")) as (_world, _server, client):
        client.send(b"AUTH", token_of("robot"))
        await settle_down()
        assert client.transport.take() == b"+OK\r\n"


async def test_reset_forgets_the_user_and_a_failed_auth_does_not():
    async with served_to() as (_world, _server, client):
        await enter(client, "publisher")
        assert await ask(client, b"AUTH", b"admin", b"wrong") == WRONGPASS
        assert await client.say(b"PUBLISH orders x") == b"+OK\r\n"
        assert await client.say(b"RESET") == b"+RESET\r\n"
        assert await client.say(b"PUBLISH orders x") == NOAUTH


async def test_another_user_has_other_rights_at_once():
    async with served_to() as (_world, _server, client):
        await enter(client, "publisher")
        assert await client.say(b"PUBLISH orders x") == b"+OK\r\n"
        await enter(client, "subscriber")
        assert (await client.say(b"PUBLISH orders x")).startswith(b"-NOPERM")


async def test_five_wrong_secrets_end_the_connection():
    async with served_to() as (_world, _server, client):
        client.connection.data_received(command(b"AUTH", b"admin", b"wrong") * 9 + command(b"PING"))
        await eventually(lambda: client.transport.is_lost)
        assert client.transport.take() == WRONGPASS * guard.MAX_FAILURES


async def test_a_secret_that_cannot_be_looked_at_holds_nobody_for_ever(monkeypatch):
    async def no_thread(*_):
        raise RuntimeError("can't start new thread")

    async with served_to() as (_world, server, client):
        monkeypatch.setattr(server.shared.sign_in, "identify", no_thread)
        client.connection.data_received(command(b"AUTH", b"admin", b"long secret") + command(b"PING"))
        await settle_down()
        assert client.transport.take() == b"-ERR internal error; see the broker's log\r\n+PONG\r\n"


async def test_who_does_not_sign_in_is_sent_away(monkeypatch):
    monkeypatch.setattr(guard, "SIGN_IN_SECONDS", 0)

    async with served_to() as (_world, _server, client):
        await eventually(lambda: client.transport.is_lost)
        assert client.transport.take() == b"-NOAUTH not authenticated in time; send AUTH first\r\n"


async def test_who_says_reset_has_to_sign_in_again(monkeypatch):
    """Otherwise a revoked user could keep a connection forever."""
    async with served_to() as (_world, _server, client):
        await enter(client, "admin")
        monkeypatch.setattr(guard, "SIGN_IN_SECONDS", 0)
        client.send(b"RESET")
        await eventually(lambda: client.transport.is_lost)
        assert client.transport.take() == b"+RESET\r\n-NOAUTH not authenticated in time; send AUTH first\r\n"


async def test_who_waits_for_a_turn_is_not_late_unless_the_secret_is_wrong():
    async with served_to() as (_world, _server, client):
        client.send(b"AUTH", b"admin", b"wrong")
        client.connection.guard._too_late()
        assert not client.transport.is_closed
        await eventually(lambda: client.transport.is_lost)
        assert client.transport.take() == WRONGPASS


async def test_who_sends_much_without_signing_in_is_sent_away():
    async with served_to() as (_world, _server, client):
        for _ in range(4):
            client.send(b"ECHO", b"x" * 16_000)
        assert client.transport.take() == NOAUTH * 4
        client.connection.data_received(b"*2\r\n$4\r\nECHO\r\n$16000\r\n" + b"x" * 10_000)
        await settle_down()
        assert client.transport.take() == b"-NOAUTH too many bytes before authentication; send AUTH first\r\n"
        assert client.transport.is_lost


async def test_what_is_sent_with_the_secret_does_not_count():
    async with served_to() as (_world, _server, client):
        large = command(b"PUBLISH", b"orders", b"x" * 100_000)
        client.connection.data_received(command(b"AUTH", b"publisher", token_of("publisher")) + large)
        await settle_down()
        assert client.transport.take() == b"+OK\r\n" * 2


async def test_what_a_user_sends_in_front_of_a_reset_does_not_count():
    async with served_to() as (_world, _server, client):
        await enter(client, "publisher")
        large = command(b"PUBLISH", b"orders", b"x" * 10_000)
        client.connection.data_received(large * 10 + command(b"RESET"))
        await settle_down()
        assert client.transport.take() == b"+OK\r\n" * 10 + b"+RESET\r\n"
        client.send(b"ECHO", b"x" * 100_000)
        await settle_down()
        assert client.transport.take().endswith(b"-NOAUTH too many bytes before authentication; send AUTH first\r\n")


async def test_who_is_being_sent_away_is_told_once(monkeypatch):
    async with served_to() as (_world, server, client):
        client.transport.high_water_bytes = 0  # the client does not read its replies
        client.connection.data_received(b"*x\r\n")
        client.connection.guard._too_late()
        assert client.transport.take().count(b"\r\n") == 1
        assert server.refusals.counts == {"protocol_error": 1}


async def test_who_has_signed_in_may_stay(monkeypatch):
    monkeypatch.setattr(guard, "SIGN_IN_SECONDS", 0.05)

    async with served_to() as (_world, server, _client):
        client = Client(server)
        await enter(client, "stranger")
        assert client.connection.guard._deadline.cancelled()


@pytest.mark.parametrize("line", [b"AUTH", b"AUTH a b hunter2", b"HELLO 3 AUTH hunter2", b"HELLO 3 WHAT hunter2"])
async def test_mistakes_do_not_repeat_a_secret(line):
    async with served_to() as (_world, _server, client):
        reply = await client.say(line)
        assert reply.startswith(b"-ERR ")
        assert b"hunter2" not in reply


@pytest.mark.parametrize("act", [b"CREATE orders", b"SET orders lease_seconds 5"])
async def test_dead_letters_go_only_where_the_user_may_publish(act):
    async with served_to() as (world, _server, client):
        world.broker.publish(b"secret", [b"x"])
        if act.startswith(b"SET"):
            world.broker.publish(b"orders", [b"x"])
        await enter(client, "admin")
        assert (await client.say(b"TOPIC " + act + b" dead_letter_topic secret")).startswith(b"-NOPERM ")
        assert await client.say(b"TOPIC " + act + b" dead_letter_topic default") == b"+OK\r\n"
        await enter(client, "admin-of-all")
        assert await client.say(b"TOPIC SET orders dead_letter_topic secret") == b"+OK\r\n"


async def test_messages_are_moved_only_to_where_the_user_may_publish():
    async with served_to() as (world, _server, client):
        world.broker.publish(b"orders", [b"x"])
        await enter(client, "admin")
        assert (await client.say(b"REDRIVE orders TO secret")).startswith(b"-NOPERM ")
        assert (await client.say(b"REDRIVE secret TO orders")).startswith(b"-NOPERM ")
        await enter(client, "admin-of-all")
        assert await client.say(b"REDRIVE orders TO secret") == b":1\r\n"
