"""The dead letters of a topic are shown: those that came from it, page by page, and nothing changes by it."""

import pytest

from miniqueue.broker import dead_looking, peeking
from miniqueue.broker.peeking import State
from miniqueue.core import attributes
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.topic_errors import UnknownTopicError
from tests.broker.support import run
from tests.broker.test_redriving import DEAD, die


async def dead(world, topic, count=1000, after=None):
    return await world.broker.peeker.peek(topic, State.DEAD, count, after)


async def send_to_dead(world, topic):
    await world.broker.configurator.change(topic, {"dead_letter_topic": DEAD.decode()}).wait()


def payloads(letters):
    return [letter.found.payload for letter in letters]


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_those_that_came_from_the_topic_are_shown_page_by_page(page, monkeypatch):
    monkeypatch.setattr(peeking, "MAX_COUNT", page)

    async def body(world):
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
                after = letters[-1].partition, letters[-1].found.seq
            assert payloads(found) == [b"a", b"b", b"d"]
        assert {letter.state for letter in found} == {State.DEAD}
        assert [letter.found.seq for letter in found] == [0, 1, 4]
        assert attributes.decode(found[2].found.attributes).origin.seq == 2
        assert payloads(await dead(world, b"u", 1)) == [b"c"]
        assert world.broker.stats()[DEAD].ready == 5

    run(body)


def test_a_topic_from_which_nothing_died_has_none():
    async def body(world):
        await world.publish(b"t", b"a")
        await world.publish(b"x" * 253, b"a")
        assert await dead(world, b"t") == []
        assert await dead(world, b"x" * 253) == []
        await world.publish(b"t.dlq", b"a")
        assert await dead(world, b"t") == []
        with pytest.raises(UnknownTopicError):
            await dead(world, b"nothing")

    run(body)


def test_a_page_ends_with_so_many_bytes(monkeypatch):
    monkeypatch.setattr(peeking, "MAX_BYTES", 1)

    async def body(world):
        await die(world, b"t", b"a", b"b")
        await send_to_dead(world, b"t")
        assert payloads(await dead(world, b"t")) == [b"a"]

    run(body)


def test_what_cannot_be_read_came_from_nowhere():
    assert dead_looking._origin_of(b"\xff") is None


def test_dead_letters_are_purged_where_they_are():
    async def body(world):
        await world.publish(b"t", b"a")
        with pytest.raises(InvalidOptionError, match="dead messages cannot be purged"):
            await world.broker.clearer.purge(b"t", State.DEAD)

    run(body)
