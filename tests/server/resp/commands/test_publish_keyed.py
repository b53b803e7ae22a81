"""PUBs with keys that come in one pipeline are published together; each is answered as if it were alone."""

import pytest

from tests.broker.support import world_with
from tests.fakes import settle_down
from tests.server.resp.clients import command


def pub(payload: bytes, key: bytes = b"k", topic: bytes = b"t", word: bytes = b"KEY") -> bytes:
    return command(b"PUB", topic, payload, word, key)


async def replies_to(client, *commands: bytes) -> list[bytes]:
    client.connection.data_received(b"".join(commands))
    await settle_down()
    return client.transport.take().splitlines()


async def test_a_pipeline_with_keys_is_one_list_and_each_message_is_answered(world, client, monkeypatch):
    batches = list[int]()
    publish_batch = world.broker.publish_batch

    def publish(name, payloads, *others):
        batches.append(len(payloads))
        return publish_batch(name, payloads, *others)

    monkeypatch.setattr(world.broker, "publish_batch", publish)
    replies = await replies_to(client, *[pub(b"%d" % number, b"k%d" % (number % 3)) for number in range(150)])
    assert replies[1::2] == [b"0-%d" % number for number in range(150)]
    assert (batches, world.store.write_count) == ([128, 22], 1)
    assert await world.drain(b"t") == [b"%d" % number for number in range(150)]


async def test_the_keys_decide_the_partitions_of_messages_that_come_together(world, client):
    await client.say(b"TOPIC CREATE t partitions 8")
    keys = [b"k%d" % number for number in range(20)]
    alone = {key: (await client.say(b"PUB t x KEY " + key)).split(b"\r\n")[1].partition(b"-")[0] for key in keys}
    replies = await replies_to(client, *[pub(b"y", key) for key in keys])
    assert [reply.partition(b"-")[0] for reply in replies[1::2]] == [alone[key] for key in keys]
    received = (await client.say(b"RECEIVE t COUNT 100")).count(b"\r\nkey\r\n")
    assert received == 40


async def test_what_comes_between_messages_with_keys_is_answered_in_its_place(client):
    others = [command(b"LEN", b"t"), command(b"ECHO", b"1"), command(b"PUB", b"t", b"x", b"UNIQUE", b"u")]
    keyed = pub(b"x") + pub(b"y", b"l")
    replies = await replies_to(client, keyed, others[0], keyed, others[1], keyed, others[2], pub(b"x", topic=b"u"))
    ids = [reply for reply in replies if b"-" in reply]
    assert ids == [b"0-0", b"0-1", b"0-2", b"0-3", b"0-4", b"0-5", b"0-6", b"0-0"]
    assert (replies[4], replies[10]) == (b":2", b"1")


@world_with(max_message_bytes=10)
async def test_a_message_with_a_key_that_is_refused_is_refused_alone(world, client):
    await client.say(b"TOPIC CREATE t max_messages 3")
    no_key, too_large = pub(b"a", b""), pub(b"much too large")
    replies = await replies_to(client, pub(b"1"), no_key, pub(b"2"), too_large, pub(b"3"), pub(b"4"), pub(b"5"))
    codes = [reply.partition(b" ")[0] for reply in replies if reply[:1] != b"$"]
    assert codes == [b"0-0", b"-BADOPTION", b"0-1", b"-TOOBIG", b"0-2", b"-LIMIT", b"-LIMIT"]
    assert await world.drain(b"t") == [b"1", b"2", b"3"]


async def test_a_failed_commit_is_an_error_for_each_message_with_a_key(world, client):
    world.store.fail_writes = {1}
    replies = await replies_to(client, *[pub(b"x")] * 3)
    assert [reply[:9] for reply in replies] == [b"-UNKNOWN "] * 3
    assert await replies_to(client, *[pub(b"x")] * 2) == [b"$3", b"0-0", b"$3", b"0-1"]


@pytest.mark.parametrize("word", [b"key", b"Key"])
async def test_the_word_before_a_key_can_have_any_case(world, client, word):
    assert await replies_to(client, *[pub(b"x", word=word)] * 2) == [b"$3", b"0-0", b"$3", b"0-1"]


async def test_messages_with_keys_in_a_transaction_wait_for_exec(world, client):
    replies = await replies_to(client, command(b"MULTI"), pub(b"x") + pub(b"y"), command(b"EXEC"))
    assert replies == [b"+OK", b"+QUEUED", b"+QUEUED", b"*2", b"$3", b"0-0", b"$3", b"0-1"]


async def test_commands_read_the_messages_with_keys_before_them(client):
    replies = await replies_to(client, pub(b"x") + pub(b"y"), command(b"RECEIVE", b"t", b"COUNT", b"9", b"AUTOACK"))
    assert replies[:5] == [b"$3", b"0-0", b"$3", b"0-1", b"*2"]
