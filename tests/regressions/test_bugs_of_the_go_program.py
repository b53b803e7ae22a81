"""The bugs of the Go program miniqueue v0.8.0, one test for each, numbered as in the list of its differences.

Each docstring says what the Go program did.
"""

import asyncio
import random

import pytest

from miniqueue.broker import Broker
from miniqueue.core.message.message import Counts
from miniqueue.errors import NothingOutstandingError
from miniqueue.server.config.settings_table import SETTINGS
from miniqueue.server.resp.server import RespServer
from miniqueue.storage.format import keys
from miniqueue.storage.leveldb.database import DatabaseOptions
from miniqueue.storage.leveldb.store import LevelDBStore
from miniqueue.storage.port import SyncMode
from tests.acceptance.telnet import command
from tests.broker.support import World, started_world
from tests.fakes import FakeConsumer, FakeTransport, ManualClock, settle_down


class Client:
    """A RESP connection with a fake transport."""

    def __init__(self, server: RespServer) -> None:
        self.connection = server()
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)

    async def say(self, words: bytes) -> bytes:
        """Send one command; return what comes back."""
        self.connection.data_received(command(words))
        await settle_down()
        return self.transport.take()


def server_of(world: World) -> RespServer:
    return RespServer(world.broker, {})


async def test_01_leased_messages_survive_a_restart(world):
    """It never looked at its `ack-` keys again: what was in flight when it stopped was lost."""
    await world.publish(b"t", b"a", b"b", b"c")
    await world.holding(b"t")
    await world.holding(b"t")
    await world.restart()
    assert await world.drain(b"t") == [b"a", b"b", b"c"]


async def test_02_deleting_a_topic_leaves_topics_whose_name_begins_with_it(world):
    """Its purge was by raw prefix: DELETE /foo wiped foobar."""
    for name in (b"foo", b"foobar", b"fo"):
        await world.publish(name, name)
    await world.broker.delete_topic(b"foo")
    await settle_down()
    assert [await world.drain(name) for name in (b"foobar", b"fo")] == [[b"foobar"], [b"fo"]]


async def test_03_a_deleted_topic_is_not_listed_twice_when_it_comes_again(world):
    """Its purge left the registry entry: the topic was listed, and its delays were processed, twice."""
    for _ in range(3):
        await world.publish(b"t", b"a")
        await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"a")
    await world.restart()
    assert world.broker.topics() == [b"t"]


async def test_04_delayed_messages_of_a_topic_with_a_dash_come_back(world):
    """It split its keys at dashes: a message delayed in `a-b` never returned."""
    await world.publish(b"a-b-c", b"x")
    (await world.holding(b"a-b-c")).consumer.dack(1)
    world.clock.advance(1)
    world.broker.tick()
    assert await world.drain(b"a-b-c") == [b"x"]


async def test_05_topics_named_like_its_own_keys_do_not_collide(world):
    """Topic `t-ack` shared keys with the acknowledgements of `t`: messages were lost, subscribers hung."""
    names = [b"t", b"t-ack", b"t-delay", b"t-head", b"t-tail", b"t-ack-tail", b"m-topics"]
    for name in names:
        await world.publish(name, name + b"1", name + b"2")
    for name in names:
        (await world.holding(name)).consumer.dack(1)
    await world.restart()
    world.clock.advance(1)
    world.broker.tick()
    for name in names:
        assert await world.drain(name) == [name + b"1", name + b"2"]


async def test_06_as_many_consumers_wake_as_messages_come_back(world):
    """Its wake-up was a non-blocking send: of three waiting consumers one woke for three returned messages."""
    await world.publish(b"t", b"a", b"b", b"c")
    for _ in range(3):
        (await world.holding(b"t")).consumer.dack(1)
    waiting = [world.consumer(b"t") for _ in range(3)]
    for consumer in waiting:
        consumer.consumer.request()
    world.clock.advance(1)
    world.broker.tick()
    assert [consumer.payloads for consumer in waiting] == [[b"a"], [b"b"], [b"c"]]


async def test_07_delayed_messages_come_back_first_in_first_out_and_never_early(world):
    """They came back in reversed order, the tenth before the second, up to a second early."""
    payloads = [b"%d" % n for n in range(12)]
    await world.publish(b"t", *payloads)
    for _ in payloads:
        (await world.holding(b"t")).consumer.dack(1)
    world.clock.advance(0.999)
    world.broker.tick()
    assert await world.drain(b"t") == []
    world.clock.advance(0.001)
    world.broker.tick()
    assert await world.drain(b"t") == payloads


async def test_08_a_bad_delay_keeps_the_message_with_its_consumer(world):
    """`DACK oops` ended the handler without returning the message: it stayed leased forever."""
    client = Client(server_of(world))
    await world.publish(b"t", b"a")
    assert await client.say(b"SUBSCRIBE t") == b"$1\r\na\r\n"
    for words in (b"DACK oops", b"DACK -1", b"DACK nan", b"DACK 1e999", b"DACK 1 2", b"WHAT"):
        assert (await client.say(words)).startswith(b"-")
    assert await client.say(b"ACK") == b"+OK\r\n"
    assert world.broker.stats()[b"t"].acknowledged == 1


async def test_09_a_subscriber_that_holds_nothing_returns_nothing_when_it_leaves(world):
    """A subscriber that left before its first message NACKed another's: that one was delivered twice."""
    server = server_of(world)
    await world.publish(b"t", b"a")
    holder, leaver = Client(server), Client(server)
    assert await holder.say(b"SUBSCRIBE t") == b"$1\r\na\r\n"
    assert await leaver.say(b"SUBSCRIBE t") == b""
    leaver.transport.lose()
    FakeConsumer(world.broker, b"t").consumer.close()
    late = Client(server)
    assert await late.say(b"SUBSCRIBE t") == b""
    assert await holder.say(b"ACK") == b"+OK\r\n"
    assert late.transport.take() == b""


async def test_10_an_ack_without_a_message_settles_no_other(world):
    """An early ACK deleted the message that another consumer held; after a purge, an old ACK hit a new message."""
    server = server_of(world)
    await world.publish(b"t", b"a")
    holder, early = Client(server), Client(server)
    await holder.say(b"SUBSCRIBE t")
    assert (await early.say(b"ACK")).startswith(b"-NOLEASE")
    await early.say(b"SUBSCRIBE t")
    assert (await early.say(b"ACK")).startswith(b"-NOLEASE")
    assert world.broker.stats()[b"t"].leased == 1
    old = await world_holding_old(world)
    await world.broker.delete_topic(b"u")
    await world.publish(b"u", b"new")
    with pytest.raises(NothingOutstandingError):
        old.consumer.ack()
    assert await world.drain(b"u") == [b"new"]


async def world_holding_old(world: World) -> FakeConsumer:
    await world.publish(b"u", b"old")
    return await world.holding(b"u")


async def test_11_subscribe_without_a_topic_is_an_error(world):
    """It indexed the missing argument: the whole server ended with exit code 2."""
    client = Client(server_of(world))
    assert (await client.say(b"SUBSCRIBE")).startswith(b"-ERR invalid number of args, want: 2; syntax: SUBSCRIBE ")
    assert await client.say(b"PING") == b"+PONG\r\n"


async def test_12_a_subscriber_that_disconnects_while_waiting_swallows_no_message(world):
    """It did not notice: the consumer that was gone took the next wake-up with it."""
    server = server_of(world)
    gone, waiting = Client(server), Client(server)
    await gone.say(b"SUBSCRIBE t")
    await waiting.say(b"SUBSCRIBE t")
    gone.transport.lose()
    await world.publish(b"t", b"a")
    assert waiting.transport.take() == b"$1\r\na\r\n"
    assert world.broker.stats()[b"t"].consumers == 1


MIB = 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("write_buffer_bytes", [1 * MIB, 16 * MIB])
async def test_13_the_space_of_acknowledged_messages_is_given_back(tmp_path, write_buffer_bytes):
    """Values were never deleted: 10,000 messages of 1 KB, all acknowledged, left 12 MB."""
    noise = random.Random(13)  # not compressible
    options = DatabaseOptions(write_buffer_bytes=write_buffer_bytes)
    store = await LevelDBStore.open(tmp_path / "store", sync=SyncMode.NEVER, options=options)

    async def open_store():
        return store

    broker = Broker(open_store, clock=ManualClock(), period_seconds=1e6)
    await broker.start()
    for _ in range(100):
        await broker.publish(b"t", [noise.randbytes(1000) for _ in range(100)]).commit.wait()
    await acknowledge_all(broker, 10_000)
    await broker._engine.journal.committer.flush()
    await broker.delete_topic(b"t")
    while len(broker._engine.tasks) > 4:  # noqa: ASYNC110 - the purge sets no event
        await asyncio.sleep(0)
    await broker.stop()
    tables = (path for path in (tmp_path / "store").rglob("*") if path.suffix in (".ldb", ".log"))
    assert sum(path.stat().st_size for path in tables) < 2 * MIB


async def acknowledge_all(broker: Broker, count: int) -> None:
    consumer = FakeConsumer(broker, b"t")
    consumer.consumer.request()
    for _ in range(count):
        while consumer.consumer.is_waiting:  # noqa: ASYNC110 - the store's reader is another thread
            await asyncio.sleep(0)
        consumer.consumer.ack()
        consumer.consumer.request()
    consumer.consumer.close()


async def test_14_a_publish_is_one_atomic_write(world):
    """Publishing and taking were several writes: a crash between them left stuck topics and duplicates."""
    await world.publish(b"t", b"a", b"b")
    assert len(world.store.batches) == 1
    await world.publish(b"t", b"c")
    assert len(world.store.batches) == 2
    (await world.holding(b"t")).consumer.nack()
    await world.commit()
    assert len(world.store.batches) == 3
    assert {key[0] for key in world.store.batches[2]} == {0x10, 0x11, 0x12, 0x21}


async def test_15_returning_many_messages_costs_few_writes(world):
    """Each NACK was a database transaction that flushed the memtable: 295 a second. Ticks read every topic."""
    await world.publish(b"t", *(b"%d" % n for n in range(1000)))
    holder = await world.holding(b"t")
    for _ in range(1000):
        holder.consumer.nack()
        holder.consumer.request()
    await world.commit()
    assert world.store.write_count == 2
    reads = world.store.scan_count
    world.broker.tick()
    await settle_down()
    assert (world.store.write_count, world.store.scan_count) == (2, reads)


async def test_16_consumers_leave_in_any_order(world):
    """It removed by an index that was out of date: another consumer went, or the server panicked."""
    consumers = [world.consumer(b"t") for _ in range(6)]
    for consumer in consumers:
        consumer.consumer.request()
    for number in (1, 4, 0, 5):
        consumers[number].consumer.close()
    await world.publish(b"t", b"a", b"b")
    assert [consumer.payloads for consumer in consumers] == [[], [], [b"a"], [b"b"], [], []]


async def test_17_every_way_to_come_back_is_counted(world):
    """Only DACK was counted: nothing told a message that crashes its consumers from any other.

    This version counts, and keeps the counts over restarts; limits on them, dead letters and lease timeouts
    belong to later versions.
    """
    await world.publish(b"t", b"poison")
    for settle in ("close", "nack", "back", "close"):
        getattr((await world.holding(b"t")).consumer, settle)()
    await world.restart()
    assert (await world.holding(b"t")).leases[0].counts == Counts(nacks=1, backs=1, disconnects=2)


async def test_18_topics_are_listed_and_durability_can_be_chosen_and_a_stop_loses_nothing():
    """It had no limits, metrics, health, ids, batches, graceful stop or choice of fsync; TOPICS was Go's print.

    Metrics and health have tests of their own. Users, groups, ids and batches belong to later versions.
    """
    async with started_world(max_message_bytes=10) as world:
        client = Client(server_of(world))
        await world.publish(b"b", b"x")
        await world.publish(b"a", b"12345")
        assert await client.say(b"TOPICS") == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
        assert (await client.say(b"PUBLISH a 12345678901")).startswith(b"-TOOBIG")
        holder = await world.holding(b"a")
        holder.consumer.ack()
        await world.restart()
        assert await world.drain(b"a") == []
    assert "sync" in {setting.name for setting in SETTINGS}


async def test_19_dack_takes_its_delay_over_resp(world):
    """DACK over Redis's protocol was always one second; any argument closed the connection."""
    client = Client(server_of(world))
    await world.publish(b"t", b"a")
    await client.say(b"SUBSCRIBE t")
    assert await client.say(b"DACK 2.5") == b"+OK\r\n"
    for seconds, delivered in ((2.4, b""), (0.1, b"$1\r\na\r\n")):
        world.clock.advance(seconds)
        world.broker.tick()
        assert client.transport.take() == delivered
    assert await client.say(b"DACK") == b"+OK\r\n"
    world.clock.advance(1)
    world.broker.tick()
    assert client.transport.take() == b"$1\r\na\r\n"


def test_purged_keys_of_a_topic_do_not_include_its_neighbours():
    """Topics 0, 1, and 2 have adjacent ids, and so adjacent ranges."""
    for start, stop in keys.of_topic(1):
        assert not any(start <= key < stop for key in (keys.head(0, 2**32 - 1), keys.head(2, 0), keys.chunk(2, 0, 0)))
