"""Searching for messages: what is found, in which order, in how many pages, and that nothing changes by it."""

import asyncio

import pytest

from miniqueue.broker.inspect import scan as scanning
from miniqueue.broker.inspect.peeked import State
from miniqueue.broker.inspect.positions import ScanPosition, parse_scan, parse_scan_position
from miniqueue.core.message.lanes import Priority
from miniqueue.core.options.filter import Filter
from miniqueue.core.options.publish import PublishOptions
from miniqueue.errors.requests import InvalidOptionError, UnknownGroupError, UnknownMessageError, UnknownTopicError
from tests.broker.acts.test_by_id import dead
from tests.broker.inspect.test_peek import scatter
from tests.broker.support import started_world

ALL = Filter()


async def found(world, wanted=ALL, **options):
    """Return the payloads of all pages, and the number of pages."""
    options = {"count": 1000} | options
    payloads, after, pages = [], None, 0
    while pages == 0 or after is not None:
        page = await world.broker.inspect.search(b"t", wanted, after=after, **options)
        payloads += [seen.stored.payload for seen in page.messages]
        after, pages = page.next, pages + 1
        assert pages < 200
    return payloads, pages


async def everywhere(world):
    """Put messages into every range. Publish some with a delay; one is due when a returned message is."""
    await scatter(world)
    for seconds in (50, 51, 900):
        options = PublishOptions(delay_seconds=seconds)
        await world.broker.publish_with(b"t", b"in %d" % seconds, options).commit.wait()


FRONT, DUE, LATER = [b"6"], [b"4"], [b"5", b"in 50", b"0", b"in 51", b"in 900"]
REST = [b"8", b"9", b"10", b"11", b"1", b"12", b"13", b"3", b"14", b"15"]


@pytest.mark.parametrize("limits", [{"count": 1}, {"count": 3}, {"max_scanned": 1}, {"max_scanned": 4}, {}])
@pytest.mark.parametrize(
    ("state", "payloads"),
    [(None, FRONT + DUE + LATER + REST), (State.READY, FRONT + DUE + REST), (State.DELAYED, LATER)],
)
async def test_every_message_is_read_once_whatever_the_pages(limits, state, payloads, world):
    await everywhere(world)
    assert (await found(world, state=state, **limits))[0] == payloads


async def test_a_message_says_its_state(world):
    await everywhere(world)
    page = await world.broker.inspect.search(b"t", ALL, count=1000)
    later = [seen for seen in page.messages if seen.state is State.DELAYED]
    assert [seen.stored.payload for seen in later] == LATER
    assert [seen.due_at_ms is None for seen in page.messages] == [seen.state is State.READY for seen in page.messages]


async def test_a_page_can_be_empty_before_the_end(world):
    await world.publish(b"t", *[b"%d" % n for n in range(50)])
    page = await world.broker.inspect.search(b"t", Filter(contains=b"49"), count=1, max_scanned=20)
    assert (page.messages, page.next, page.scanned_count) == ([], ScanPosition(0, 3, 19), 20)
    assert await found(world, Filter(contains=b"49"), max_scanned=20) == ([b"49"], 3)


async def test_a_position_outlives_its_message_and_a_restart(world):
    await world.publish(b"t", b"a", b"b", b"c")
    page = await world.broker.inspect.search(b"t", ALL, count=2)
    (await world.holding(b"t")).consumer.ack()
    (await world.holding(b"t")).consumer.ack()
    await world.restart()
    rest = await world.broker.inspect.search(b"t", ALL, count=2, after=page.next)
    assert ([seen.stored.payload for seen in rest.messages], rest.next) == ([b"c"], None)


async def test_all_priorities_and_partitions_are_searched(world):
    await world.broker.admin.create(b"t", {"partitions": 3}).wait()
    for number in range(30):
        options = PublishOptions(key=b"k%d" % (number % 7), priority=[*Priority][number % 3])
        await world.broker.publish_with(b"t", b"%d" % number, options).commit.wait()
    payloads, pages = await found(world, count=4)
    assert sorted(payloads, key=int) == [b"%d" % number for number in range(30)]
    assert pages >= 8
    assert (await found(world, Filter(key=b"k3"), count=1))[0] == sorted(
        [b"%d" % number for number in range(3, 30, 7)], key=lambda payload: (int(payload) % 3, int(payload))
    )


async def test_large_pages_end_early(monkeypatch):
    monkeypatch.setattr(scanning, "MAX_BYTES", 10)
    monkeypatch.setattr(scanning, "MAX_READ_BYTES", 100)
    async with started_world() as world:
        await world.publish(b"t", *[b"1234"] * 50)
        assert len((await world.broker.inspect.search(b"t", ALL, count=1000)).messages) == 3
        assert (await world.broker.inspect.search(b"t", Filter(contains=b"x"), count=1000)).scanned_count == 25


async def test_each_group_has_its_own_messages(world):
    await world.publish(b"t", b"a", b"b")
    await world.broker.groups.create(b"t", b"g")
    (await world.holding(b"t")).consumer.ack()
    assert (await found(world))[0] == [b"b"]
    assert (await found(world, group=b"g"))[0] == [b"a", b"b"]


async def test_what_cannot_be_searched_is_refused(world):
    await world.publish(b"t", b"a")
    search = world.broker.inspect.search
    for options in ({"state": State.LEASED}, {"max_scanned": 100_001}, {"count": 1001}):
        with pytest.raises(InvalidOptionError):
            await search(b"t", ALL, **{"count": 1, **options})
    with pytest.raises(UnknownTopicError):
        await search(b"other", ALL, count=1)
    with pytest.raises(UnknownGroupError):
        await search(b"t", ALL, count=1, group=b"g")
    with pytest.raises(UnknownMessageError):
        await search(b"t", ALL, count=1, after=ScanPosition(7, 3, 0))


async def test_a_search_changes_nothing(world):
    await everywhere(world)
    before = dict(world.store._values)
    await found(world, count=2)
    await world.commit()
    assert world.store._values == before


@pytest.mark.parametrize("position", [ScanPosition(0, 3, 17), ScanPosition(65536, 0, (1 << 127) - 5)])
def test_positions_are_parsed_as_they_are_written(position):
    assert parse_scan_position(bytes(position)) == position


@pytest.mark.parametrize("word", [b"", b"0-3", b"0-5-1", b"0-3-x", b"0-3--1", b"a-3-1", b"0-3-%d" % (1 << 128)])
def test_what_is_no_position_is_refused(word):
    with pytest.raises(InvalidOptionError):
        parse_scan_position(word)


@pytest.mark.parametrize("word", [b"", b"0", b"100001", b"x", b"-1"])
def test_what_is_no_scan_is_refused(word):
    with pytest.raises(InvalidOptionError):
        parse_scan(word)


async def test_the_dead_letters_of_a_topic_are_searched_in_their_own_topic(world):
    await world.broker.admin.create(b"other", {"dead_letter_topic": "t.dlq"}).wait()
    await dead(world, b"a1", b"b", b"a2")
    await world.publish(b"t.dlq", b"a3")
    page = await world.broker.inspect.search(b"t", Filter(contains=b"a"), state=State.DEAD, count=1)
    following = await world.broker.inspect.search(
        b"t", Filter(contains=b"a"), state=State.DEAD, count=9, after=page.next
    )
    seen = [*page.messages, *following.messages]
    assert [(each.message_id, each.stored.payload, each.state) for each in seen] == [
        (b"0-0", b"a1", State.DEAD),
        (b"0-2", b"a2", State.DEAD),
    ]
    assert seen == [each for each in await world.broker.inspect.peek(b"t", State.DEAD) if each.stored.payload != b"b"]
    for name in (b"other", b"t.dlq"):
        topic_page = await world.broker.inspect.search(name, ALL, state=State.DEAD, count=9)
        assert (topic_page.messages, topic_page.next) == ([], None)
    with pytest.raises(UnknownTopicError):
        await world.broker.inspect.search(b"nothing", ALL, state=State.DEAD, count=9)


@pytest.mark.parametrize("iterations", range(8))
async def test_a_topic_that_is_deleted_before_the_first_message_is_read_is_unknown(iterations, world):
    await world.publish(b"t", b"a")
    searching = asyncio.create_task(world.broker.inspect.search(b"t", ALL, count=1))
    for _ in range(iterations):
        await asyncio.sleep(0)
    world.broker.admin.delete(b"t").close()
    try:
        page = await searching
    except UnknownTopicError:
        return
    assert [seen.stored.payload for seen in page.messages] in ([], [b"a"])


@pytest.mark.parametrize("iterations", range(8))
async def test_a_message_that_becomes_due_while_a_page_is_read_is_ready_or_not_there(iterations, world):
    """It used to be among the ready ones, and was said to be delayed."""
    await world.publish(b"t", b"a")
    (await world.holding(b"t")).consumer.dack(5)
    await world.commit()
    searching = asyncio.create_task(world.broker.inspect.search(b"t", ALL, state=State.READY, count=1))
    for _ in range(iterations):
        await asyncio.sleep(0)
    world.clock.advance(6)
    world.broker.tick()
    assert [seen.state for seen in (await searching).messages] in ([], [State.READY])
