"""Publishing and group commit: what arrives during a commit is the next one, and nothing is seen before its own."""

import asyncio

import pytest
import structlog

from miniqueue.broker.commit import journal as commit
from miniqueue.broker.commit.journal import Commit
from miniqueue.errors import DrainingError, InvalidTopicError, PayloadTooLargeError
from miniqueue.storage.format import keys, values
from tests.broker.support import run, world_with
from tests.fakes import START_MS, settle_down
from tests.loops import LeapingLoop, on_loop


async def test_published_messages_are_stored_and_numbered(world):
    published = world.broker.publish(b"t", [b"a", b"b"])
    assert (published.partition, published.first_seq, published.commit.is_done) == (0, 0, False)
    await published.commit.wait()
    chunk = values.decode_chunk(0, world.store.pairs()[keys.chunk(1, 0, 0)])
    assert (chunk.payloads, chunk.committed_at_ms) == ([b"a", b"b"], START_MS)
    assert world.broker.publish(b"t", [b"c"]).first_seq == 2


async def test_everything_that_arrives_during_a_commit_is_one_next_commit(world):
    world.store.may_write.clear()
    first = world.broker.publish(b"t", [b"0"]).commit
    await settle_down()
    later = []
    for number in range(1, 100):
        later.append(world.broker.publish(b"t" if number % 2 else b"u", [b"%d" % number]).commit)
        await asyncio.sleep(0)
    assert world.store.write_count == 1
    assert len(set(later)) == 1
    world.store.may_write.set()
    await later[0].wait()
    assert (world.store.write_count, first.is_done) == (2, True)
    assert len(world.store.batches[1]) == 3 + 2  # new topic, chunk twice


async def test_publishes_of_one_turn_are_one_write(world):
    commits = {world.broker.publish(b"t", [b"x"]).commit for _ in range(50)}
    await settle_down()
    assert len(commits) == 1
    assert world.store.write_count == 1


async def test_nothing_is_delivered_before_its_commit_is_done(world):
    waiting = world.consumer(b"t")
    waiting.consumer.request()
    world.store.may_write.clear()
    commit = world.broker.publish(b"t", [b"a"]).commit
    later = world.consumer(b"t")
    later.consumer.request()
    await settle_down()
    assert (waiting.leases, later.leases, commit.is_done) == ([], [], False)
    world.store.may_write.set()
    await commit.wait()
    assert (waiting.payloads, later.payloads) == ([b"a"], [])


async def test_the_publisher_hears_of_the_commit_before_the_consumer_gets_the_message(world):
    events = []
    consumer = world.broker.consumer(b"t", lambda lease: events.append("delivered"), events.append)
    consumer.request()
    world.broker.publish(b"t", [b"a"]).commit.add_listener(lambda: events.append("published"))
    await settle_down()
    assert events == ["published", "delivered"]


async def test_a_commit_without_changes_writes_nothing(world):
    await world.commit()
    assert world.store.write_count == 0


@pytest.mark.slow
async def test_a_commit_larger_than_a_chunk_is_several_chunks_in_one_write(world):
    payloads = [b"%d" % n for n in range(20_000)]
    await world.publish(b"t", *payloads)
    assert world.store.write_count == 1
    assert await world.drain(b"t") == payloads


@pytest.mark.parametrize(
    ("name", "payload", "error"), [(b"a/b", b"", InvalidTopicError), (b"t", b"x" * 11, PayloadTooLargeError)]
)
@world_with(max_message_bytes=10)
async def test_a_refused_publish_leaves_nothing_behind(name, payload, error, world):
    with pytest.raises(error):
        world.broker.publish(name, [b"small", payload])
    await world.commit()
    assert (world.broker.topics(), world.broker.stats(), world.store.pairs()) == ([], {}, {})
    await world.publish(b"t", b"x" * 10)


async def test_an_empty_message_is_a_message(world):
    await world.publish(b"t", b"", b"\x00\xff")
    assert await world.drain(b"t") == [b"", b"\x00\xff"]


async def test_topics_are_listed_sorted_when_they_exist(world):
    world.consumer(b"waited-for")
    for name in (b"b", b"a", b"c"):
        await world.publish(name, b"x")
    assert world.broker.topics() == [b"a", b"b", b"c"]
    assert set(world.broker.stats()) == {b"a", b"b", b"c", b"waited-for"}


async def test_stats_count_messages_and_consumers(world):
    await world.publish(b"t", *(b"%d" % n for n in range(5)))
    first, second = await world.holding(b"t"), await world.holding(b"t")
    await world.holding(b"t")
    first.consumer.ack()
    second.consumer.dack(60)
    stats = world.broker.stats()[b"t"]
    assert (stats.published, stats.acknowledged, stats.ready) == (5, 1, 2)
    assert (stats.leased, stats.delayed, stats.consumers, stats.waiting) == (1, 1, 3, 0)


@on_loop(LeapingLoop)
async def test_settles_wait_for_company_but_not_for_long(world):
    await world.publish(b"t", *(b"%d" % n for n in range(100)))
    assert len(await world.drain(b"t")) == 100
    assert world.store.write_count == 1
    begun_at = asyncio.get_running_loop().time()
    await world.broker._engine.journal.committer.open.wait()
    assert asyncio.get_running_loop().time() - begun_at <= 2 * commit.SETTLE_DELAY_SECONDS
    assert world.store.write_count == 2
    assert keys.chunk(1, 0, 0) not in world.store.pairs()


async def test_a_publish_takes_waiting_settles_along(world):
    await world.publish(b"t", b"a")
    (await world.holding(b"t")).consumer.ack()
    await world.publish(b"t", b"b")
    assert world.store.write_count == 2
    assert keys.chunk(1, 0, 0) not in world.store.pairs()


async def test_stop_commits_what_was_settled_and_refuses_what_comes_after(world):
    await world.publish(b"t", b"a", b"b")
    (await world.holding(b"t")).consumer.ack()
    await world.broker.stop()
    assert world.store.close_count == 1
    assert world.broker.refusal is DrainingError
    with pytest.raises(DrainingError):
        world.broker.publish(b"t", [b"c"])
    with pytest.raises(DrainingError):
        await world.broker.delete_topic(b"t")
    await world.start()
    assert await world.drain(b"t") == [b"b"]


async def test_stop_completes_publishes_under_way(world):
    commit = world.broker.publish(b"t", [b"a"]).commit
    await world.broker.stop()
    assert (commit.is_done, commit.error) == (True, None)
    await world.start()
    assert await world.drain(b"t") == [b"a"]


def test_stop_makes_everything_durable_whatever_the_sync_mode():
    assert run(lambda world: world.publish(b"t", b"a")).store.sync_count == 1


@world_with(sync_interval_seconds=0.001)
async def test_an_interval_syncs_again_and_again(world):
    for _ in range(3):
        await world.publish(b"t", b"a")
        await world.store.synced.wait()
        world.store.synced.clear()


async def test_an_interval_without_a_commit_syncs_nothing(world):
    await world.publish(b"t", b"a")
    for _ in range(3):
        world.broker._engine.journal.request_sync()
        await settle_down()
    assert world.store.sync_count == 1


async def test_a_commit_tells_all_who_wait_once():
    commit, heard = Commit(), []
    commit.add_listener(lambda: heard.append(1))
    waiters = [asyncio.ensure_future(commit.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    commit.finish()
    await asyncio.gather(*waiters)
    await commit.wait()
    assert heard == [1]


async def test_a_listener_that_fails_keeps_nobody_from_being_told():
    commit, heard = Commit(), []
    commit.add_listener(lambda: heard.append(1))
    commit.add_listener(lambda: heard[1])
    commit.add_listener(lambda: heard.append(2))
    waiter = asyncio.ensure_future(commit.wait())
    await asyncio.sleep(0)
    with structlog.testing.capture_logs() as logged:
        commit.finish()
    await waiter
    assert heard == [1, 2]
    assert [(entry["log_level"], entry["exc_info"]) for entry in logged] == [("error", True)]
