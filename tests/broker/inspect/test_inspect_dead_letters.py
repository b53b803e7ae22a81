"""The dead letters of a topic are shown: those that came from it, page by page, and nothing changes by it."""

import pytest

from miniqueue.broker.inspect import dead_letters, peek
from miniqueue.broker.inspect.peeked import State
from miniqueue.core.message import attributes
from miniqueue.errors.requests import InvalidOptionError, UnknownTopicError
from tests.broker.consume.test_redrive import DEAD, die
from tests.broker.support import started_world


async def dead(world, topic, count=1000, after=None):
    return await world.broker.inspect.peek(topic, State.DEAD, count, after)


async def send_to_dead(world, topic):
    await world.broker.admin.change(topic, {"dead_letter_topic": DEAD.decode()}).wait()


def payloads(letters):
    return [letter.stored.payload for letter in letters]


@pytest.mark.parametrize("page", [1, 2, 1000])
async def test_those_that_came_from_the_topic_are_shown_page_by_page(page, monkeypatch):
    monkeypatch.setattr(peek, "MAX_COUNT", page)

    async with started_world() as world:
        await die(world, b"t", b"a", b"b")
        await die(world, b"u", b"c")
        await world.publish(DEAD, b"no dead letter")
        await die(world, b"t", b"d")
        await send_to_dead(world, b"t")
        await send_to_dead(world, b"u")
        for count in {1, page}:
            found, after = [], None
            while letters := await dead(world, b"t", count, after):
                found += letters
                after = letters[-1].partition, letters[-1].stored.seq
            assert payloads(found) == [b"a", b"b", b"d"]
        assert {letter.state for letter in found} == {State.DEAD}
        assert [letter.stored.seq for letter in found] == [0, 1, 4]
        assert attributes.decode(found[2].stored.attributes).origin.seq == 2
        assert payloads(await dead(world, b"u", 1)) == [b"c"]
        assert world.broker.stats()[DEAD].ready == 5


async def test_a_topic_from_which_nothing_died_has_none(world):
    await world.publish(b"t", b"a")
    await world.publish(b"x" * 253, b"a")
    assert await dead(world, b"t") == []
    assert await dead(world, b"x" * 253) == []
    await world.publish(b"t.dlq", b"a")
    assert await dead(world, b"t") == []
    with pytest.raises(UnknownTopicError):
        await dead(world, b"nothing")


async def test_a_page_ends_with_so_many_bytes(monkeypatch):
    monkeypatch.setattr(peek, "MAX_BYTES", 1)

    async with started_world() as world:
        await die(world, b"t", b"a", b"b")
        await send_to_dead(world, b"t")
        assert payloads(await dead(world, b"t")) == [b"a"]


def test_what_cannot_be_read_came_from_nowhere():
    assert dead_letters._origin_of(b"\xff") is None


async def test_dead_letters_are_purged_where_they_are(world):
    await world.publish(b"t", b"a")
    with pytest.raises(InvalidOptionError, match="dead messages cannot be purged"):
        await world.broker.purge(b"t", State.DEAD)
