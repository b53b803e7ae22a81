"""The stream over RESP: one message after the other, or several at a time."""

import pytest

from miniqueue.errors import StorageError
from miniqueue.server.resp.server import RespServer
from tests.server.resp.clients import Client, command


async def test_a_stream_gives_a_message_for_every_settle(world, client):
    await world.publish(b"t", b"a", b"b", b"c")
    assert await client.say(b"SUBSCRIBE t") == b"$1\r\na\r\n"
    assert await client.say(b"ack") == b"+OK\r\n$1\r\nb\r\n"
    assert await client.say(b"BACK") == b"+OK\r\n$1\r\nc\r\n"
    assert await client.say(b"NACK") == b"+OK\r\n$1\r\nc\r\n"
    assert await client.say(b"DACK 60") == b"+OK\r\n$1\r\nb\r\n"
    assert await client.say(b"ACK") == b"+OK\r\n"
    await world.publish(b"t", b"later")
    assert client.transport.take() == b"$5\r\nlater\r\n"


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
async def test_anything_else_in_a_stream_leaves_the_message_held(line, reply, world, client):
    await world.publish(b"t", b"a")
    await client.say(b"SUBSCRIBE t")
    assert (await client.say(line)).startswith(reply)
    assert await client.say(b"ACK") == b"+OK\r\n"


@pytest.mark.parametrize("line", [b"ACK t", b"NACK t", b"BACK t", b"DACK t 0"])
async def test_a_settle_may_name_the_topic_of_the_stream(line, world, client):
    await world.publish(b"t", b"a", b"b")
    await client.say(b"SUB t")
    assert (await client.say(line)).startswith(b"+OK\r\n$1\r\n")
    assert await client.say(b"ACK other") == b"-ERR invalid command\r\n"
    assert (await client.say(b"ack t")).startswith(b"+OK\r\n")


async def test_a_delay_that_reads_like_the_topic_is_a_delay(world, client):
    await world.publish(b"60", b"a")
    await client.say(b"SUB 60")
    assert await client.say(b"DACK 60") == b"+OK\r\n"


async def test_reset_ends_the_stream_and_returns_the_message(world, client):
    await world.publish(b"t", b"a")
    await client.say(b"SUBSCRIBE t")
    assert await client.say(b"RESET") == b"+RESET\r\n"
    assert await client.say(b"TOPICS") == b"*1\r\n$1\r\nt\r\n"
    assert await world.drain(b"t") == [b"a"]


async def test_a_message_that_ended_with_its_topic_is_an_error_and_the_stream_goes_on(world, client):
    await world.publish(b"t", b"old")
    await client.say(b"SUBSCRIBE t")
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"new")
    reply = await client.say(b"ACK")
    assert (reply[:9], reply[-9:]) == (b"-NOLEASE ", b"$3\r\nnew\r\n")


async def test_a_topic_that_cannot_be_read_is_told_and_leaves_the_connection_unsubscribed(world, client):
    await world.publish(b"t", b"a")
    world.broker._engine.topics.by_name[b"t"].fault = StorageError("broken")
    assert await client.say(b"SUBSCRIBE t") == b"-ERR broken\r\n"
    assert world.broker.stats()[b"t"].consumers == 0
    assert await client.say(b"TOPICS") == b"*1\r\n$1\r\nt\r\n"


async def test_a_topic_that_turns_out_to_be_unreadable_is_told_to_who_waits(world, client):
    await world.publish(b"t", b"a")
    await world.restart()
    world.store.fail_scans = set(range(world.store.scan_count, world.store.scan_count + 9))
    client = Client(RespServer(world.broker, {}))
    assert (await client.say(b"SUBSCRIBE t")).startswith(b"-ERR scan ")


async def test_a_pipelined_subscribe_and_settles_work_like_one_by_one(world, client):
    await world.publish(b"t", b"a", b"b")
    client.connection.data_received(
        b"".join(command(word) for word in (b"ACK", b"ACK", b"ACK")).join([command(b"SUBSCRIBE", b"t"), b""])
    )
    replies = client.transport.take()
    assert replies.startswith(b"$1\r\na\r\n+OK\r\n$1\r\nb\r\n+OK\r\n-NOLEASE ")


async def test_a_stream_with_prefetch_names_its_messages(world, client):
    await world.publish(b"t", b"a", b"b", b"c")
    first, second = b"*3\r\n$1\r\n1\r\n$1\r\na\r\n*0\r\n", b"*3\r\n$1\r\n2\r\n$1\r\nb\r\n*0\r\n"
    assert await client.say(b"SUBSCRIBE t PREFETCH 2") == first + second
    third = b"*3\r\n$1\r\n3\r\n$1\r\nc\r\n*0\r\n"
    assert await client.say(b"ACK 2") == b"+OK\r\n" + third
    again = b"*3\r\n$1\r\n4\r\n$1\r\na\r\n*2\r\n$5\r\nnacks\r\n:1\r\n"
    assert await client.say(b"NACK 1") == b"+OK\r\n" + again
    assert await client.say(b"DACK 60 3 4") == b"+OK\r\n"
    assert world.broker.stats()[b"t"].delayed == 2


async def test_a_nack_of_a_stream_can_have_a_delay_and_a_reason(world, client):
    await world.publish(b"t", b"a", b"b", b"c")
    await client.say(b"SUBSCRIBE t PREFETCH 2")
    fourth = b"*3\r\n$1\r\n4\r\n$1\r\nb\r\n*4\r\n$5\r\nnacks\r\n:1\r\n$7\r\nfailure\r\n$3\r\nwhy\r\n"
    third = b"*3\r\n$1\r\n3\r\n$1\r\nc\r\n*0\r\n"
    assert await client.say(b"NACK 1 DELAY 60 REASON later") == b"+OK\r\n" + third
    assert await client.say(b"NACK 2 reason why") == b"+OK\r\n" + fourth
    assert world.broker.stats()[b"t"].delayed == 1
    assert (await client.say(b"NACK 3 DELAY x")).startswith(b"-BADDELAY ")
    assert (await client.say(b"NACK 3 DELAY")).startswith(b"-ERR syntax error at 'DELAY'")
    assert (await client.say(b"NACK 3 REASON why REASON why")).startswith(b"-ERR syntax error at 'REASON'")
    assert await client.say(b"ACK 3 4") == b"+OK\r\n"


async def test_a_nack_of_a_plain_stream_can_have_a_delay(world, client):
    await world.publish(b"DELAY", b"a")
    await client.say(b"SUBSCRIBE DELAY")
    assert await client.say(b"NACK DELAY") == b"+OK\r\n$1\r\na\r\n"  # the topic has that name
    assert await client.say(b"NACK DELAY 5") == b"+OK\r\n"
    world.clock.advance(5.001)
    world.broker.tick()
    assert client.transport.take() == b"$1\r\na\r\n"


async def test_nack_keeps_the_order_of_its_receipts_also_where_failures_wait(world, client):
    await client.say(b"TOPIC CREATE t retry_delays 5")
    await world.publish(b"t", b"a", b"b", b"c")
    await client.say(b"SUBSCRIBE t PREFETCH 3")
    assert await client.say(b"NACK 3 1 2") == b"+OK\r\n"
    world.clock.advance(5.001)
    world.broker.tick()
    again = b"*3\r\n$1\r\n%d\r\n$1\r\n%c\r\n*2\r\n$5\r\nnacks\r\n:1\r\n"
    assert client.transport.take() == again % (4, b"c") + again % (5, b"a") + again % (6, b"b")


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
async def test_a_bad_word_to_a_stream_with_prefetch_is_an_error_and_the_stream_goes_on(line, start, world, client):
    await world.publish(b"t", b"a", b"b")
    await client.say(b"SUBSCRIBE t PREFETCH 2")
    assert (await client.say(line)).startswith(start)
    assert await client.say(b"ACK 2") == b"+OK\r\n"


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (b"PREFETCH 0", b"-BADPREFETCH "),
        (b"PREFETCH 10001", b"-BADPREFETCH "),
        (b"PREFETCH x", b"-BADPREFETCH "),
        (b"PREFETCH", b"-ERR invalid number of args"),
        (b"SPEED 1", b"-ERR invalid number of args"),
    ],
)
async def test_a_bad_prefetch_leaves_no_stream(words, start, client):
    assert (await client.say(b"SUBSCRIBE t " + words)).startswith(start)
    assert await client.say(b"TOPICS") == b"*0\r\n"
