"""Publishing with options: what stays with the message, what is refused, and that nothing is stored then."""

import pytest

from miniqueue.broker.model.limits import BrokerLimits
from miniqueue.core.message import attributes
from miniqueue.core.options.publish import NO_OPTIONS, PublishOptions
from miniqueue.errors import InvalidAttributesError, MiniqueueError, OutcomeUnknownError, TopicFullError
from tests.broker.support import started_world, world_with

DESCRIBED = PublishOptions(headers=((b"trace", b"7f"),), key=b"ada")


async def test_a_message_gets_an_id_and_keeps_headers_and_key(world):
    await world.publish(b"t", b"first")
    accepted = world.broker.publish_with(b"t", b"x", DESCRIBED)
    assert (accepted.message_id, accepted.is_duplicate) == (b"0-1", False)
    await accepted.commit.wait()
    await world.restart()
    assert await world.drain(b"t") == [b"first", b"x"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_headers_and_key_are_delivered(restarts, world):
    await world.broker.publish_with(b"t", b"x", DESCRIBED).commit.wait()
    if restarts:
        await world.restart()
    held = await world.holding(b"t")
    (encoded,) = held.leases[0].attributes
    assert attributes.decode(encoded) == DESCRIBED.attributes(0)


async def test_a_message_without_options_is_a_plain_one(world):
    await world.broker.publish_with(b"t", b"x", NO_OPTIONS).commit.wait()
    held = await world.holding(b"t")
    assert held.leases[0].attributes is None


@pytest.mark.parametrize(
    "options",
    [
        PublishOptions(headers=((b"n", b"v" * 70_000),)),
        PublishOptions(headers=tuple((b"%d" % n, b"v" * 100) for n in range(700))),
    ],
)
async def test_what_is_too_long_is_refused_and_makes_no_topic(options, world):
    with pytest.raises(InvalidAttributesError):
        world.broker.publish_with(b"t", b"x", options)
    assert world.broker.topics() == []


@world_with(max_message_bytes=10)
async def test_a_refusal_of_the_broker_holds_here_too(world):
    for name, payload, word in ((b"a/b", b"x", "BADTOPIC"), (b"t", b"x" * 11, "TOOBIG")):
        with pytest.raises(MiniqueueError) as caught:
            world.broker.publish_with(name, payload, DESCRIBED)
        assert caught.value.code == word
    await world.broker.stop()
    with pytest.raises(MiniqueueError) as caught:
        world.broker.publish_with(b"t", b"x", DESCRIBED)
    assert caught.value.code == "DRAINING"
    await world.start()
    assert world.broker.topics() == []


async def test_a_fault_leaves_the_outcome_open(world):
    world.store.fail_writes = {1}
    accepted = world.broker.publish_with(b"t", b"x", DESCRIBED)
    with pytest.raises(OutcomeUnknownError):
        await accepted.commit.wait()


async def test_what_fits_counts_the_attributes():
    async with started_world(
        limits=BrokerLimits(max_topic_bytes=2 * len(b"x" + DESCRIBED.attributes(0).encode()))
    ) as world:
        extra = DESCRIBED.attributes(0).encode()
        with pytest.raises(TopicFullError) as caught:
            world.broker.publish(b"t", [b"x"] * 4, [extra] * 4)
        assert caught.value.fitting_count == 2
        assert world.broker.topics() == []
        await world.broker.publish(b"t", [b"x"] * 2, [extra] * 2).commit.wait()
        with pytest.raises(TopicFullError) as caught:
            world.broker.publish(b"t", [b""], [extra])
        assert caught.value.fitting_count == 0
