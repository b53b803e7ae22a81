"""Publishing over RESP: runs, commits, limits, and several messages at once."""

from tests.broker.support import world_with
from tests.fakes import settle_down
from tests.server.resp.clients import command


async def test_a_run_of_publishes_is_one_commit_and_as_many_replies(world, client):
    client.connection.data_received(b"".join(command(b"PUBLISH", b"t", b"%d" % n) for n in range(100)))
    await settle_down()
    assert client.transport.take() == b"+OK\r\n" * 100
    assert world.store.write_count == 1
    assert await world.drain(b"t") == [b"%d" % n for n in range(100)]


async def test_replies_keep_the_order_of_their_commands_round_a_commit(world, client):
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


async def test_a_delete_takes_effect_before_the_commands_after_it(world, client):
    await world.publish(b"t", b"old")
    lines = [b"TOPIC DELETE t", b"TOPICS", b"PUBLISH t new"]
    client.connection.data_received(b"".join(command(*line.split()) for line in lines))
    await settle_down()
    assert client.transport.take() == b"+OK\r\n*0\r\n+OK\r\n"
    assert await world.drain(b"t") == [b"new"]


async def test_a_failed_commit_is_an_error_for_each_of_its_publishes(world, client):
    world.store.fail_writes = {1}
    client.connection.data_received(command(b"PUBLISH", b"t", b"x") * 3)
    await settle_down()
    replies = client.transport.take().splitlines()
    assert [reply[:9] for reply in replies] == [b"-UNKNOWN "] * 3
    assert await client.say(b"PUBLISH t x") == b"+OK\r\n"


@world_with(max_message_bytes=10)
async def test_a_message_that_is_too_large_is_refused_alone(world, client):
    payloads = [b"1", b"much too large", b"2"]
    client.connection.data_received(b"".join(command(b"PUBLISH", b"t", payload) for payload in payloads))
    await settle_down()
    first, second, third = client.transport.take().splitlines()
    assert (first, third) == (b"+OK", b"+OK")
    assert second.startswith(b"-TOOBIG message of 14 bytes is over the limit of 10")
    assert await world.drain(b"t") == [b"1", b"2"]


@world_with(max_message_bytes=2)
async def test_a_limit_below_that_of_words_refuses_only_what_is_over_it_in_a_run(client):
    # the connection's own limit is higher
    client.connection.data_received(b"".join(command(b"PUBLISH", b"t", p) for p in (b"1", b"333", b"22")))
    await settle_down()
    assert [line[:4] for line in client.transport.take().splitlines()] == [b"+OK", b"-TOO", b"+OK"]


@world_with(max_message_bytes=1)
async def test_a_tiny_limit_for_messages_leaves_room_for_words_and_names(client):
    assert await client.say(b"PUBLISH a-long-name x") == b"+OK\r\n"


@world_with(max_message_bytes=10)
async def test_a_word_that_is_too_long_ends_the_connection_before_it_comes(client):
    client.connection.data_received(command(b"ECHO", b"x" * 1024) + b"*2\r\n$4\r\nECHO\r\n$1025\r\n")
    await settle_down()
    assert client.transport.take().endswith(b"x\r\n-ERR Protocol error: invalid bulk length\r\n")
    assert client.transport.is_lost


async def test_several_messages_are_published_together(world, client):
    ids = b"*3\r\n$3\r\n0-0\r\n$3\r\n0-1\r\n$3\r\n0-2\r\n"
    assert await client.say(b"MPUBLISH t a b c") == ids
    assert await world.drain(b"t") == [b"a", b"b", b"c"]


@world_with(max_message_bytes=10)
async def test_one_message_that_is_too_large_keeps_all_from_being_published(world, client):
    assert (await client.say(b"MPUBLISH t a bbbbbbbbbbbb")).startswith(b"-TOOBIG ")
    assert world.broker.topics() == []
