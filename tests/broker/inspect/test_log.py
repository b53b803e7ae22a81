"""A log read from any place on: what is found, what is missing, and that nothing changes by it."""

import asyncio

import pytest

from miniqueue.broker.inspect import log
from miniqueue.core.message import attributes
from miniqueue.core.options.read import ReadOptions
from miniqueue.errors import StorageError, UnavailableError
from miniqueue.errors.requests import InvalidOptionError, UnknownPartitionError, UnknownTopicError
from miniqueue.storage.format import keys, values
from tests.fakes import START_MS, settle_down


async def read(world, offset=None, **options):
    return await world.broker.inspect.log.read(b"t", 0, ReadOptions(offset, **options))


def payloads(page):
    return [payload for run in page.runs for payload in run.payloads]


async def leaf(world, offset=0, **options):
    """Return the payloads of all pages up to the end."""
    found = []
    while (page := await read(world, offset, **options)).runs:
        found += payloads(page)
        offset = page.next_seq
    assert offset == page.bounds.end_seq
    return found


async def fill(world):
    """Publish 3, 1, 4, 1 and 2 messages, each commit a second after the one before; return them."""
    messages = [b"%d" % n for n in range(11)]
    for start, stop in [(0, 3), (3, 4), (4, 8), (8, 9), (9, 11)]:
        await world.publish(b"t", *messages[start:stop])
        world.clock.advance(1)
    return messages


@pytest.mark.parametrize("offset", range(12))
@pytest.mark.parametrize("count", [1, 2, 3, 5, 11, 100])
async def test_a_page_begins_where_it_is_to_begin_and_has_what_is_wanted(offset, count, world):
    messages = await fill(world)
    page = await read(world, offset, max_count=count)
    assert payloads(page) == messages[offset : offset + count]
    assert page.next_seq == min(11, offset + count)
    assert page.missed_count == 0
    assert page.bounds == (0, 0, 11)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("max_bytes", [1, 2, 3, 1 << 20])
async def test_pages_together_have_everything(count, max_bytes, world):
    messages = await fill(world)
    assert await leaf(world, max_count=count, max_bytes=max_bytes) == messages
    await world.restart()
    assert await leaf(world, max_count=count, max_bytes=max_bytes) == messages


async def test_a_page_ends_with_the_message_that_reaches_the_bytes(world):
    await world.publish(b"t", b"aaa", b"bb", b"c", b"dddd")
    assert payloads(await read(world, 0, max_bytes=4)) == [b"aaa", b"bb"]
    assert payloads(await read(world, 0, max_bytes=5)) == [b"aaa", b"bb"]
    assert payloads(await read(world, 2, max_bytes=1)) == [b"c"]
    assert payloads(await read(world, 2, max_bytes=2)) == [b"c", b"dddd"]


async def test_it_begins_at_the_earliest_when_nothing_is_said(world):
    await fill(world)
    holder = await world.holding(b"t")
    for _ in range(3):
        holder.consumer.ack()
        holder.consumer.request()
    await world.commit()
    page = await read(world)
    assert payloads(page) == [b"%d" % n for n in range(3, 11)]
    assert (page.missed_count, page.bounds) == (0, (0, 3, 11))


async def test_messages_that_are_gone_are_counted(world):
    await fill(world)
    holder = await world.holding(b"t")
    for _ in range(4):
        holder.consumer.ack()
        holder.consumer.request()
    await world.commit()
    page = await read(world, 1, max_count=3)
    assert (payloads(page), page.missed_count, page.next_seq) == ([b"4", b"5", b"6"], 3, 7)
    assert (await read(world, 1, max_count=0)).missed_count == 3
    assert (await read(world, 1, max_count=0)).next_seq == 4
    holder.consumer.ack()
    assert await world.drain(b"t") == [b"%d" % n for n in range(5, 11)]
    await world.commit()
    page = await read(world, 2)
    assert (page.runs, page.missed_count, page.next_seq, page.bounds) == ([], 9, 11, (0, 11, 11))


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_page_ends_at_a_hole_and_the_next_one_tells_of_it(is_restarted, world):
    await fill(world)
    holders = [await world.holding(b"t") for _ in range(9)]
    for holder in holders[3:8]:  # two whole commits in the middle
        holder.consumer.ack()
    await world.commit()
    if is_restarted:
        await world.restart()
    first = await read(world, 0)
    assert (payloads(first), first.next_seq) == ([b"0", b"1", b"2"], 3)
    second = await read(world, first.next_seq)
    assert (payloads(second), second.missed_count) == ([b"8", b"9", b"10"], 5)
    assert payloads(await read(world, 6)) == [b"8", b"9", b"10"]


async def test_nothing_changes_by_reading(world):
    messages = await fill(world)
    holder = await world.holding(b"t")
    before, pairs = world.broker.stats()[b"t"], world.store.pairs()
    window = world.broker._engine.topics.by_name[b"t"].cursors[0].log
    loaded = window.size_bytes, len(window)
    assert await leaf(world, max_count=2) == messages
    assert world.broker.stats()[b"t"] == before
    assert world.store.pairs() == pairs
    assert (window.size_bytes, len(window)) == loaded
    holder.consumer.ack()
    assert await world.drain(b"t") == messages[1:]


async def test_attributes_come_with_the_messages(world):
    extra = attributes.Attributes(key=b"k").encode()
    await world.broker.publish(b"t", [b"a", b"b", b"c"], [b"", extra, b""]).commit.wait()
    page = await read(world, 1, max_count=1)
    assert [(run.payloads, run.attributes, run.committed_at_ms) for run in page.runs] == [([b"b"], [extra], START_MS)]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    ("after_ms", "seq"),
    [(-5, 0), (0, 0), (1, 3), (999, 3), (1000, 3), (1001, 4), (2000, 4), (3000, 8), (3500, 9), (4000, 9), (4001, 11)],
)
async def test_a_time_is_found(after_ms, seq, is_restarted, world):
    messages = await fill(world)
    if is_restarted:
        await world.restart()
    assert await world.broker.inspect.log.seq_at(b"t", 0, START_MS + after_ms) == seq
    page = await read(world, time_ms=START_MS + after_ms)
    assert (payloads(page), page.missed_count) == (messages[seq:], 0)


@pytest.mark.parametrize("gone", [range(3), range(3, 8), range(8, 11), range(9), range(3, 9)])
async def test_a_time_is_found_beside_what_is_gone(gone, world):
    await fill(world)
    holders = [await world.holding(b"t") for _ in range(11)]
    for number in gone:
        holders[number].consumer.ack()
    await world.commit()
    stored = numbers_in(world.store)
    for second, first in enumerate([0, 3, 4, 8, 9]):
        page = await read(world, time_ms=START_MS + 1000 * second)
        assert payloads(page)[:1] == [b"%d" % n for n in stored if n >= first][:1]


def numbers_in(store):
    """Return the numbers of the messages that are in chunks."""
    pairs = [(key, value) for key, value in sorted(store.pairs().items()) if key[0] == keys.Space.CHUNK]
    extents = [values.decode_extent(keys.chunk_first_seq(key), value) for key, value in pairs]
    return [number for extent in extents for number in range(extent.first_seq, extent.end_seq)]


async def test_finding_a_time_takes_few_reads(world):
    for n in range(500):
        await world.publish(b"t", b"%d" % n)
        world.clock.advance(0.001)
    looked = []
    last_of = world.store.last_of

    async def counted(ranges):
        looked.append(ranges)
        return await last_of(ranges)

    world.store.last_of = counted
    assert await world.broker.inspect.log.seq_at(b"t", 0, START_MS + 317) == 317
    assert len(looked) <= 10
    assert world.store.scanned_bytes == 0


async def test_who_reads_on_does_not_have_a_chunk_decoded_for_every_page(monkeypatch, world):
    await world.publish(b"t", *[b"%d" % n for n in range(1000)])
    decoded = []
    decode = log.values.decode_chunk
    monkeypatch.setattr(log.values, "decode_chunk", lambda *args: decoded.append(args[0]) or decode(*args))
    assert len(await leaf(world, max_count=10)) == 1000
    assert decoded == [0]


async def test_what_is_kept_is_bounded(world):
    for _ in range(3 * log.MAX_KEPT):
        await world.publish(b"t", b"a", b"b")
    for start in range(3 * log.MAX_KEPT):
        assert payloads(await read(world, 2 * start, max_count=1)) == [b"a"]
    assert len(world.broker.inspect.log._kept) == log.MAX_KEPT


async def test_a_topic_of_the_same_name_is_not_read_from_what_was_kept(world):
    await world.publish(b"t", b"a", b"b")
    assert payloads(await read(world, 0, max_count=1)) == [b"a"]
    await world.broker.delete_topic(b"t")
    await world.publish(b"t", b"c", b"d")
    assert payloads(await read(world, 1)) == [b"d"]


async def test_what_is_deleted_is_not_read_from_what_was_kept(world):
    await world.publish(b"t", b"0")
    await world.publish(b"t", b"1", b"2", b"3")
    await world.holding(b"t")
    assert payloads(await read(world, 1, max_count=1)) == [b"1"]
    assert await world.broker.purge(b"t") == 3
    page = await read(world, 2)
    assert (page.runs, page.missed_count, page.next_seq) == ([], 2, 4)


async def test_what_is_not_committed_is_not_read(world):
    await world.publish(b"t", b"a")
    world.store.may_write.clear()
    world.broker.publish(b"t", [b"b"])
    await settle_down()
    page = await read(world, 0)
    assert (payloads(page), page.bounds.end_seq) == ([b"a"], 1)
    world.store.may_write.set()


async def test_a_place_that_cannot_be_is_refused(world):
    await world.publish(b"t", b"a")
    with pytest.raises(InvalidOptionError, match="offset 2 is behind the end of the partition, 1"):
        await read(world, 2)
    with pytest.raises(UnknownPartitionError):
        await world.broker.inspect.log.read(b"t", 7, ReadOptions(0))
    with pytest.raises(UnknownTopicError):
        await world.broker.inspect.log.read(b"other", 0, ReadOptions(0))
    with pytest.raises(UnknownTopicError):
        world.broker.inspect.log.bounds(b"other")


async def test_a_topic_that_is_deleted_meanwhile_is_not_there(world):
    await world.publish_each(b"t", b"a", b"b")
    world.store.may_scan.clear()
    reading = asyncio.ensure_future(read(world, 0, max_count=2))
    await settle_down()
    await world.broker.delete_topic(b"t")
    world.store.may_scan.set()
    with pytest.raises(UnknownTopicError):
        await reading


async def test_a_fault_of_the_store_is_told_and_nobody_reads_while_it_is_reopened(world):
    await world.publish(b"t", b"a")
    await world.publish(b"t", b"b")
    world.store.fail_scans = {world.store.scan_count + 1}
    with pytest.raises(StorageError):
        await read(world, 0)
    assert payloads(await read(world, 0)) == [b"a", b"b"]
    world.broker._engine.journal.admission.shut(StorageError("x"))
    with pytest.raises(UnavailableError):
        await read(world, 0)
    world.broker._engine.journal.admission.open()
